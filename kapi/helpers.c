// SPDX-License-Identifier: GPL-2.0
/*
 * Wrappers of static inlines and macros, one line each, so that Rust can call
 * them; no logic. Each context rule is the wrapped function's own.
 */
#include <linux/backing-dev.h>
#include <linux/blk-cgroup.h>
#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/cgroup.h>
#include <linux/cpumask.h>
#include <linux/freezer.h>
#include <linux/fs.h>
#include <linux/kdev_t.h>
#include <linux/lockdep.h>
#include <linux/memcontrol.h>
#include <linux/mutex.h>
#include <linux/pagemap.h>
#include <linux/sched/mm.h>
#include <linux/sched/task_stack.h>
#include <linux/srcu.h>

#include "helpers.h"

#define CREATE_TRACE_POINTS
#include "rust_loop_events.h"

void kapi_trace_try(struct request *rq, const char *what)
{
	trace_rust_loop_try(rq, what);
}

void kapi_trace_punt(struct request *rq, const char *what)
{
	trace_rust_loop_punt(rq, what);
}

void kapi_trace_complete(struct request *rq, blk_status_t status)
{
	trace_rust_loop_complete(rq, status);
}

int kapi_mutex_lock_killable(struct mutex *lock)
{
	return mutex_lock_killable(lock);
}

unsigned int kapi_memalloc_noio_save(void)
{
	return memalloc_noio_save();
}

void kapi_memalloc_noio_restore(unsigned int flags)
{
	memalloc_noio_restore(flags);
}

void *kapi_task_stack_page(const struct task_struct *task)
{
	return task_stack_page(task);
}

struct cgroup_subsys_state *kapi_current_blkcg_css(void)
{
#ifdef CONFIG_BLK_CGROUP
	return task_css(current, io_cgrp_id);
#else
	return NULL;
#endif
}

void kapi_css_put(struct cgroup_subsys_state *css)
{
	css_put(css);
}

struct mem_cgroup *kapi_mem_cgroup_from_css(struct cgroup_subsys_state *css)
{
	return mem_cgroup_from_css(css);
}

struct mem_cgroup *kapi_set_active_memcg(struct mem_cgroup *memcg)
{
	return set_active_memcg(memcg);
}

struct cgroup_subsys_state *kapi_memcg_get_e_css(struct cgroup_subsys_state *blkcg_css)
{
#ifdef CONFIG_MEMCG
	return cgroup_get_e_css(blkcg_css->cgroup, &memory_cgrp_subsys);
#else
	return NULL;
#endif
}

struct cgroup_subsys_state *kapi_bio_blkcg_css(struct bio *bio)
{
	return bio_blkcg_css(bio);
}

bool kapi_freezer_active(void)
{
	/*
	 * As data, not as a branch, which would be patched in the way of every
	 * command when a freezer begins and ends.
	 */
	return static_key_enabled(&freezer_active);
}

void kapi_sb_start_write(struct super_block *sb)
{
	sb_start_write(sb);
}

bool kapi_sb_start_write_trylock(struct super_block *sb)
{
	return sb_start_write_trylock(sb);
}

void kapi_sb_end_write(struct super_block *sb)
{
	sb_end_write(sb);
}

void kapi_sb_writers_acquired(struct super_block *sb)
{
	__sb_writers_acquired(sb, SB_FREEZE_WRITE);
}

void kapi_sb_writers_release(struct super_block *sb)
{
	__sb_writers_release(sb, SB_FREEZE_WRITE);
}

gfp_t kapi_mapping_gfp_mask(struct address_space *mapping)
{
	return mapping_gfp_mask(mapping);
}

void kapi_mapping_set_gfp_mask(struct address_space *mapping, gfp_t mask)
{
	mapping_set_gfp_mask(mapping, mask);
}

bool kapi_wake_page_match(struct wait_page_queue *wait, struct wait_page_key *key)
{
	return wake_page_match(wait, key);
}

void kapi_list_del_init(struct list_head *entry)
{
	list_del_init(entry);
}

struct inode *kapi_file_inode(const struct file *file)
{
	return file_inode(file);
}

unsigned int kapi_imajor(const struct inode *inode)
{
	return imajor(inode);
}

u64 kapi_i_size_read(const struct inode *inode)
{
	return i_size_read(inode);
}

u64 kapi_huge_encode_dev(dev_t dev)
{
	return huge_encode_dev(dev);
}

unsigned int kapi_bdev_logical_block_size(struct block_device *bdev)
{
	return bdev_logical_block_size(bdev);
}

unsigned int kapi_bdev_dma_alignment(struct block_device *bdev)
{
	return bdev_dma_alignment(bdev);
}

unsigned int kapi_bdev_write_zeroes_sectors(struct block_device *bdev)
{
	return bdev_write_zeroes_sectors(bdev);
}

unsigned int kapi_bdev_discard_granularity(struct block_device *bdev)
{
	return bdev_discard_granularity(bdev);
}

unsigned int kapi_bdev_max_discard_sectors(struct block_device *bdev)
{
	return bdev_max_discard_sectors(bdev);
}

bool kapi_bdev_rot(struct block_device *bdev)
{
	return bdev_rot(bdev);
}

unsigned int kapi_disk_openers(struct gendisk *disk)
{
	return disk_openers(disk);
}

void kapi_disk_set_state_bit(struct gendisk *disk, unsigned int bit)
{
	set_bit(bit, &disk->state);
}

void kapi_disk_clear_state_bit(struct gendisk *disk, unsigned int bit)
{
	clear_bit(bit, &disk->state);
}

void kapi_dev_set_uevent_suppress(struct device *dev, int val)
{
	dev_set_uevent_suppress(dev, val);
}

void kapi_queue_limits_start_update(struct request_queue *q, struct queue_limits *lim)
{
	*lim = queue_limits_start_update(q);
}

void kapi_queue_limits_cancel_update(struct request_queue *q)
{
	queue_limits_cancel_update(q);
}

void kapi_blk_queue_disable_discard(struct request_queue *q)
{
	blk_queue_disable_discard(q);
}

void kapi_blk_queue_disable_write_zeroes(struct request_queue *q)
{
	blk_queue_disable_write_zeroes(q);
}

void kapi_mutex_set_lock_class(struct mutex *lock, struct lock_class_key *key)
{
	lockdep_set_class(lock, key);
}

void kapi_srcu_set_lock_class(struct srcu_struct *ssp, struct lock_class_key *key)
{
	lockdep_set_class(ssp, key);
}

void kapi_synchronize_srcu_expedited(struct srcu_struct *ssp)
{
	synchronize_srcu_expedited(ssp);
}

struct request *kapi_rq_list_pop(struct rq_list *list)
{
	return rq_list_pop(list);
}

void kapi_rq_list_add_tail(struct rq_list *list, struct request *rq)
{
	rq_list_add_tail(list, rq);
}

bool kapi_blk_should_fake_timeout(struct request_queue *q)
{
	return blk_should_fake_timeout(q);
}

unsigned int kapi_num_online_cpus(void)
{
	return num_online_cpus();
}
