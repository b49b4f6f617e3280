/* router.h: which experts a row goes to, and with what weight. */
#ifndef IJ_MODEL_ROUTER_H
#define IJ_MODEL_ROUTER_H

#include "model/net.h"

/* s.x -> s.route_id [n_row, k], ascending in each row, and s.route_weight [n_row, k + SH], routed in that order, then shared. */
void ij__route(ij_net *net, int layer, int64_t n_row);

#endif
