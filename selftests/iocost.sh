#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The same as rq_qos with io.cost (F7), in a guest of its own: it freezes the queue around the rq_qos_mutex of a disk
# (ioc_qos_write()), under which io.latency and io.max allocate (iolatency_set_limit(), blk_throtl_init()). That is at odds in
# 7.3, and lockdep reports it of any disk when there have been both.
# needs: PARAMS="hw_queue_depth=4"

CONTROLLERS=io.cost
# shellcheck source=rq_qos.sh
. "$(dirname "$0")/rq_qos.sh"
