/* router.h: which experts a row goes to, and with what weight. */
#ifndef IJ_MODEL_ROUTER_H
#define IJ_MODEL_ROUTER_H

#include "model/net.h"

/* s.x -> s.route_id [n_row, k], ascending in each row, and s.route_weight [n_row, k + SH], routed in that order, then shared. */
void ij__route(ij_net *net, int layer, int64_t n_row);

/* The k experts that logits z [E + SH] choose in layer l, ascending. score: room for E floats. */
void ij__route_select(const ij_net *net, const ij_layer *l, const float *z, float *score, int *ids);

#endif
