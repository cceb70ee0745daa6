/* SPDX-License-Identifier: GPL-2.0 */
/* What becomes of a command: trace events, which only C can define. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM rust_loop

#if !defined(_KAPI_RUST_LOOP_EVENTS_H) || defined(TRACE_HEADER_MULTI_READ)
#define _KAPI_RUST_LOOP_EVENTS_H

#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/tracepoint.h>

#define KAPI_TRACE_OPS \
	{ REQ_OP_READ, "READ" }, { REQ_OP_WRITE, "WRITE" }, { REQ_OP_FLUSH, "FLUSH" }, \
	{ REQ_OP_DISCARD, "DISCARD" }, { REQ_OP_WRITE_ZEROES, "WRITE_ZEROES" }

/* sector and bytes: what is left of the command. */
DECLARE_EVENT_CLASS(rust_loop_command,
	TP_PROTO(struct request *rq, const char *what),
	TP_ARGS(rq, what),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(unsigned int, op)
		__field(u64, sector)
		__field(unsigned int, bytes)
		__string(what, what)
	),
	TP_fast_assign(
		__entry->dev = disk_devt(rq->q->disk);
		__entry->op = req_op(rq);
		__entry->sector = blk_rq_pos(rq);
		__entry->bytes = blk_rq_bytes(rq);
		__assign_str(what);
	),
	TP_printk("%d,%d %s sector=%llu bytes=%u %s", MAJOR(__entry->dev), MINOR(__entry->dev),
		  __print_symbolic(__entry->op, KAPI_TRACE_OPS), __entry->sector, __entry->bytes,
		  __get_str(what))
);

/* A try has ended: done, queued (and finished later), again. */
DEFINE_EVENT(rust_loop_command, rust_loop_try,
	TP_PROTO(struct request *rq, const char *what),
	TP_ARGS(rq, what)
);

/* The command goes to a work item: again, or why it was not tried. */
DEFINE_EVENT(rust_loop_command, rust_loop_punt,
	TP_PROTO(struct request *rq, const char *what),
	TP_ARGS(rq, what)
);

TRACE_EVENT(rust_loop_complete,
	TP_PROTO(struct request *rq, blk_status_t status),
	TP_ARGS(rq, status),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(unsigned int, op)
		__field(u64, sector)
		__field(unsigned int, bytes)
		__field(int, error)
	),
	TP_fast_assign(
		__entry->dev = disk_devt(rq->q->disk);
		__entry->op = req_op(rq);
		__entry->sector = blk_rq_pos(rq);
		__entry->bytes = blk_rq_bytes(rq);
		__entry->error = blk_status_to_errno(status);
	),
	TP_printk("%d,%d %s sector=%llu bytes=%u error=%d", MAJOR(__entry->dev), MINOR(__entry->dev),
		  __print_symbolic(__entry->op, KAPI_TRACE_OPS), __entry->sector, __entry->bytes,
		  __entry->error)
);

#endif

#undef TRACE_INCLUDE_PATH
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_PATH .
#define TRACE_INCLUDE_FILE rust_loop_events
#include <trace/define_trace.h>
