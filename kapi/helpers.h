/* SPDX-License-Identifier: GPL-2.0 */
/* Prototypes of the wrappers in helpers.c, for the C compiler and for bindgen. */
#ifndef _KAPI_HELPERS_H
#define _KAPI_HELPERS_H

#include <linux/blk_types.h>
#include <linux/types.h>

struct address_space;
struct bio;
struct block_device;
struct cgroup_subsys_state;
struct device;
struct file;
struct gendisk;
struct inode;
struct mem_cgroup;
struct mutex;
struct queue_limits;
struct request;
struct request_queue;
struct rq_list;
struct srcu_struct;
struct super_block;
struct task_struct;
struct wait_page_key;
struct wait_page_queue;

int kapi_mutex_lock_killable(struct mutex *lock);

unsigned int kapi_memalloc_noio_save(void);
void kapi_memalloc_noio_restore(unsigned int flags);
void *kapi_task_stack_page(const struct task_struct *task);
struct cgroup_subsys_state *kapi_current_blkcg_css(void);
void kapi_css_put(struct cgroup_subsys_state *css);
struct mem_cgroup *kapi_mem_cgroup_from_css(struct cgroup_subsys_state *css);
struct mem_cgroup *kapi_set_active_memcg(struct mem_cgroup *memcg);
struct cgroup_subsys_state *kapi_memcg_get_e_css(struct cgroup_subsys_state *blkcg_css);
struct cgroup_subsys_state *kapi_bio_blkcg_css(struct bio *bio);
bool kapi_freezer_active(void);
unsigned int kapi_num_online_cpus(void);

void kapi_sb_start_write(struct super_block *sb);
bool kapi_sb_start_write_trylock(struct super_block *sb);
void kapi_sb_end_write(struct super_block *sb);
void kapi_sb_writers_acquired(struct super_block *sb);
void kapi_sb_writers_release(struct super_block *sb);
gfp_t kapi_mapping_gfp_mask(struct address_space *mapping);
void kapi_mapping_set_gfp_mask(struct address_space *mapping, gfp_t mask);
bool kapi_wake_page_match(struct wait_page_queue *wait, struct wait_page_key *key);
void kapi_list_del_init(struct list_head *entry);
void kapi_trace_try(struct request *rq, const char *what);
void kapi_trace_punt(struct request *rq, const char *what);
void kapi_trace_complete(struct request *rq, blk_status_t status);
struct inode *kapi_file_inode(const struct file *file);
unsigned int kapi_imajor(const struct inode *inode);
u64 kapi_i_size_read(const struct inode *inode);
u64 kapi_huge_encode_dev(dev_t dev);

unsigned int kapi_bdev_logical_block_size(struct block_device *bdev);
unsigned int kapi_bdev_dma_alignment(struct block_device *bdev);
unsigned int kapi_bdev_write_zeroes_sectors(struct block_device *bdev);
unsigned int kapi_bdev_discard_granularity(struct block_device *bdev);
unsigned int kapi_bdev_max_discard_sectors(struct block_device *bdev);
bool kapi_bdev_rot(struct block_device *bdev);
unsigned int kapi_disk_openers(struct gendisk *disk);
void kapi_disk_set_state_bit(struct gendisk *disk, unsigned int bit);
void kapi_disk_clear_state_bit(struct gendisk *disk, unsigned int bit);
void kapi_dev_set_uevent_suppress(struct device *dev, int val);
void kapi_queue_limits_start_update(struct request_queue *q, struct queue_limits *lim);
void kapi_queue_limits_cancel_update(struct request_queue *q);
void kapi_blk_queue_disable_discard(struct request_queue *q);
void kapi_blk_queue_disable_write_zeroes(struct request_queue *q);
bool kapi_blk_should_fake_timeout(struct request_queue *q);
struct request *kapi_rq_list_pop(struct rq_list *list);
void kapi_rq_list_add_tail(struct rq_list *list, struct request *rq);
void kapi_mutex_set_lock_class(struct mutex *lock, struct lock_class_key *key);
void kapi_srcu_set_lock_class(struct srcu_struct *ssp, struct lock_class_key *key);
void kapi_synchronize_srcu_expedited(struct srcu_struct *ssp);

#endif /* _KAPI_HELPERS_H */
