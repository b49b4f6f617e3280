/* attn.h: sizes of attention that the scratch planner needs. */
#ifndef IJ_MODEL_ATTN_H
#define IJ_MODEL_ATTN_H

#include "core/base.h"

#define IJ_ATTN_TILE 64       /* query vectors (queries times heads) per task */
#define IJ_ATTN_TILE_ROWS 16  /* queries per task at most */
#define IJ_ATTN_SPAN 4096     /* positions merged as one unit; a multiple of the block */

/* Floats a worker needs for a tile, after the matmul scratch. */
int64_t ij__attn_worker_floats(int head_dim);

#endif
