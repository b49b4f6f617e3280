/* tool_synth.h: random checkpoints of the full architecture, for measuring and for trying the program without a download.
 *
 * Every code path of the decoder is in them, values are scaled so that activations stay finite and routing is spread, and the
 * bytes depend on the preset only.
 */
#ifndef IJ_TOOLS_TOOL_SYNTH_H
#define IJ_TOOLS_TOOL_SYNTH_H

#include "core/base.h"
#include "inkjet.h"

typedef enum ij_synth_size { IJ_SYNTH_3B, IJ_SYNTH_TRY, IJ_SYNTH_TINY, IJ_SYNTH_COUNT } ij_synth_size;

/* Bytes of all files, about (headers are estimated). */
size_t ij__synth_bytes(ij_synth_size size);

/* Makes sure that `folder` holds the checkpoint: creates the folder (not its parents), uses what is there when it is complete and the
 * same, and refuses a folder that holds another checkpoint. config.json comes last: where it lies, all is there. Says first when the
 * disk lacks room. progress returning false cancels (IJ_E_CANCELLED) and removes the file being written. */
ij_status ij__synth_write(ij_synth_size size, const char *folder, bool (*progress)(void *user, double fraction), void *user, ij_err *err);

/* The paths of all files that writing may leave in `folder`, temporary ones included; from ij__alloc, as is each; NULL without memory. */
char **ij__synth_files(ij_synth_size size, const char *folder, int *n);
void ij__synth_free_files(char **files, int n);

#endif
