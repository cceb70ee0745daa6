#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# In a guest that tools/soak has booted: SECONDS SEED
# shellcheck source=../../tools/guest-lib.sh
. /bed/tools/guest-lib.sh
mkdir "$WORK/soak" || exit
cd / || exit
leaks=()
! forget_leaks || leaks=(--leaks)
exec /dir/soak.py "${leaks[@]}" "$1" "$2" "$WORK/soak" "$SPARE" "${DISK}c" "${DISK}d" "${DISK}e"
