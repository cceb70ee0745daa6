/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What bindgen reads for kapi: headers that the kernel's bindings crate lacks,
 * the prototypes of the wrappers in helpers.c, and constants that C spells as
 * casts or function-like macros, which bindgen cannot evaluate by itself.
 */
#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <linux/pagemap.h>
#include <linux/sched.h>
#include <linux/statfs.h>
#include <linux/workqueue.h>
#include <uapi/linux/loop.h>

#include "helpers.h"

const fmode_t KAPI_CONST_FMODE_WRITE = FMODE_WRITE;
const fmode_t KAPI_CONST_FMODE_NOWAIT = FMODE_NOWAIT;
const fmode_t KAPI_CONST_FMODE_CAN_ODIRECT = FMODE_CAN_ODIRECT;

const int KAPI_CONST_IOCB_DIRECT = (__force int)IOCB_DIRECT;
const int KAPI_CONST_IOCB_NOWAIT = (__force int)IOCB_NOWAIT;
const int KAPI_CONST_IOCB_NOIO = IOCB_NOIO;
const int KAPI_CONST_IOCB_WAITQ = IOCB_WAITQ;

const fop_flags_t KAPI_CONST_FOP_BUFFER_RASYNC = FOP_BUFFER_RASYNC;

/* PAGE_SIZE, no number for bindgen, where the kernel has no transparent huge pages. */
const unsigned int KAPI_CONST_BLK_MAX_BLOCK_SIZE = BLK_MAX_BLOCK_SIZE;

const blk_features_t KAPI_CONST_BLK_FEAT_WRITE_CACHE = BLK_FEAT_WRITE_CACHE;
const blk_features_t KAPI_CONST_BLK_FEAT_ROTATIONAL = BLK_FEAT_ROTATIONAL;

const blk_mode_t KAPI_CONST_BLK_OPEN_WRITE = BLK_OPEN_WRITE;
const blk_mode_t KAPI_CONST_BLK_OPEN_EXCL = BLK_OPEN_EXCL;

const blk_opf_t KAPI_CONST_REQ_OP_MASK = REQ_OP_MASK;
const blk_opf_t KAPI_CONST_REQ_NOUNMAP = REQ_NOUNMAP;
const blk_opf_t KAPI_CONST_REQ_SWAP = REQ_SWAP;

const blk_status_t KAPI_CONST_BLK_STS_OK = BLK_STS_OK;
const blk_status_t KAPI_CONST_BLK_STS_IOERR = BLK_STS_IOERR;
const blk_status_t KAPI_CONST_BLK_STS_NOTSUPP = BLK_STS_NOTSUPP;
const blk_status_t KAPI_CONST_BLK_STS_RESOURCE = BLK_STS_RESOURCE;

const req_flags_t KAPI_CONST_RQF_QUIET = RQF_QUIET;

const gfp_t KAPI_CONST_GFP_IO_FS = __GFP_IO | __GFP_FS;

const unsigned int KAPI_CONST_KERNEL_STACK_SIZE = THREAD_SIZE;
