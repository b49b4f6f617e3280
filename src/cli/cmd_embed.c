/* cmd_embed.c: `inkjet embed`: what a tower makes of a picture or a sound, as a safetensors file.
 *
 * Rows are written as they are encoded, so that a long sound needs no memory for all of them; the file takes its name at the end.
 */
#include <string.h>

#include "cli/cli_media.h"
#include "core/alloc.h"
#include "core/os.h"
#include "tools/st_writer.h"

enum { PIECE = 256 }; /* rows at a time: enough for one pass over the weights to pay, little enough for Ctrl-C */

typedef struct embed {
  const cli_args *args;
  ij_towers *towers;
  ij_media *media;
  ij_towers_info tower;
  ij_media_info info;
} embed;

static int check_options(const cli_args *a) {
  if (a->n_media == 0) return say_misuse(a, "there is nothing to encode: pass --image FILE or --audio FILE");
  if (a->n_media > 1) return say_misuse(a, "one file at a time: pass --image or --audio, and one of them");
  if (!a->v[OPT_OUT].set) return say_misuse(a, "where the rows go is not said: pass --out FILE");
  return CLI_EXIT_OK;
}

static int open_towers(embed *e) {
  const cli_args *a = e->args;
  const char *path = a->v[OPT_MMPROJ].text;
  ij_err err = {0};
  ij_model_options o = ij_model_options_default();
  int rc = path ? CLI_EXIT_OK : model_path(a, &path);
  if (rc != CLI_EXIT_OK) return rc;
  if (a->v[OPT_MMPROJ].set && a->v[OPT_MODEL].set) return say_misuse(a, "-m and --mmproj both name towers: give one of them");
  o.n_threads = (int)a->v[OPT_THREADS].i;
  o.cpu_mask = a->v[OPT_CPU_MASK].text;
  if (ij_towers_open(&e->towers, path, &o, &err) != IJ_OK) return say_bad_input(&err);
  ij_towers_get_info(e->towers, &e->tower);
  return CLI_EXIT_OK;
}

static int open_medium(embed *e) {
  const cli_medium *m = &e->args->media[0];
  ij_media_kind kind = m->option == OPT_AUDIO ? IJ_MEDIA_AUDIO : IJ_MEDIA_IMAGE;
  ij_media_options o = media_options(e->args, e->towers);
  ij_err err = {0};
  char *bytes;
  size_t n;
  int rc = read_input(m->path, &bytes, &n);
  if (rc != CLI_EXIT_OK) return rc;
  ij_status s = ij_media_open(&e->media, kind, bytes, n, m->path, &o, &err);
  ij__free(bytes);
  if (s != IJ_OK) return say_bad_input(&err);
  ij_media_get_info(e->media, &e->info);
  return CLI_EXIT_OK;
}

static ij_status write_rows(const embed *e, ij_out_file *f, float *rows, ij_err *err) {
  int64_t n_rows = e->info.n_rows;
  ij_status s = IJ_OK;
  for (int64_t at = 0; at < n_rows && s == IJ_OK && !interrupted(); at += PIECE) {
    int64_t n = IJ_MIN((int64_t)PIECE, n_rows - at);
    progress_update((double)at / (double)n_rows);
    s = ij_towers_encode(e->towers, e->media, at, n, rows, err);
    if (s == IJ_OK) s = ij__out_put(f, rows, (size_t)n * (size_t)e->tower.hidden * sizeof *rows, err);
  }
  return s;
}

static int encode(const embed *e) {
  ij_err err = {0};
  ij_out_file *f = NULL;
  const char *path = e->args->v[OPT_OUT].text;
  const ij_st_tensor tensor = {.name = "rows", .dtype = IJ_DTYPE_F32, .n_dims = 2, .dims = {e->info.n_rows, e->tower.hidden}};
  float *rows = ij__alloc_array((size_t)PIECE * (size_t)e->tower.hidden, sizeof *rows);
  if (!rows) return say_nomem("rows", (size_t)PIECE * (size_t)e->tower.hidden * sizeof *rows);
  ij_status s = ij__st_open(&f, path, &tensor, 1, &err);
  progress_begin("encoding");
  if (s == IJ_OK) s = write_rows(e, f, rows, &err);
  progress_end();
  ij__free(rows);
  if (s != IJ_OK || interrupted()) {
    ij__out_abort(&f);
    return s == IJ_OK ? CLI_EXIT_INTERRUPTED : say_bad_input(&err);
  }
  return ij__out_finish(&f, &err) == IJ_OK ? CLI_EXIT_OK : say_failed(&err);
}

int cmd_embed(const cli_args *args) {
  embed e = {.args = args};
  int rc = check_options(args);
  if (rc == CLI_EXIT_OK) rc = open_towers(&e);
  if (rc == CLI_EXIT_OK) rc = open_medium(&e);
  double start = ij__os_seconds();
  if (rc == CLI_EXIT_OK) rc = encode(&e);
  if (rc == CLI_EXIT_OK && args->v[OPT_VERBOSE].set) {
    say_plain("%s: %lld rows of %d in %.3f s", args->media[0].path, (long long)e.info.n_rows, e.tower.hidden, ij__os_seconds() - start);
  }
  ij_media_close(&e.media);
  ij_towers_close(&e.towers);
  return rc;
}
