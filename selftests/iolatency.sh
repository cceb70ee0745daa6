#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The same as rq_qos with io.latency (F7), in a guest of its own: what that does under the rq_qos_mutex of a disk (it
# allocates, in iolatency_set_limit()) and io.cost around it (it freezes the queue, in ioc_qos_write()) are at odds in 7.3,
# which lockdep reports of any disk that has had both.
# needs: PARAMS="hw_queue_depth=4"

CONTROLLERS=io.latency
# shellcheck source=rq_qos.sh
. "$(dirname "$0")/rq_qos.sh"
