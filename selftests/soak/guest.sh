#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# In a guest that tools/soak has booted: SECONDS SEED DISK...
mkdir "$WORK/soak" || exit
cd / || exit
exec /dir/soak.py "$1" "$2" "$WORK/soak" "$SPARE" "${@:3}"
