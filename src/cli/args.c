/* args.c: the parser behind the command table.
 *
 * It accepts -x VALUE, -xVALUE, --name VALUE, --name=VALUE, flags, and "--" before arguments that start with a dash. There are no
 * abbreviations: a name that is not in the table is refused, with the nearest one that is.
 */
#include "cli/args.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "core/alloc.h"
#include "core/str.h"

const char *cli_option_spelling(const cli_option *o) {
  static char text[4][64];
  static int at;
  char *s = text[at++ & 3];
  if (o->name) {
    snprintf(s, sizeof text[0], "--%s", o->name);
  } else {
    snprintf(s, sizeof text[0], "-%c", o->letter);
  }
  return s;
}

/* --------------------------------------------------------------------------------------------------- nearest names */

/* Optimal string alignment distance; names longer than the table are as far as can be. */
static int edit_distance(const char *a, const char *b) {
  enum { MAX = 40 };
  size_t na = strlen(a), nb = strlen(b);
  if (na >= MAX || nb >= MAX) return MAX;
  int d[MAX][MAX];
  for (size_t i = 0; i <= na; i++) d[i][0] = (int)i;
  for (size_t j = 0; j <= nb; j++) d[0][j] = (int)j;
  for (size_t i = 1; i <= na; i++) {
    for (size_t j = 1; j <= nb; j++) {
      int best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
      best = IJ_MIN(best, d[i - 1][j] + 1);
      best = IJ_MIN(best, d[i][j - 1] + 1);
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) best = IJ_MIN(best, d[i - 2][j - 2] + 1);
      d[i][j] = best;
    }
  }
  return d[na][nb];
}

/* How far `given` may be from `name` to be worth suggesting; smaller is nearer, -1: too far. */
static int nearness(const char *given, const char *name) {
  size_t n = strlen(given);
  if (n >= 3 && ij__str_starts_with(name, given)) return 0;
  int distance = edit_distance(given, name), most = (int)(IJ_MIN(n, strlen(name)) / 3);
  return distance <= IJ_MAX(1, most) ? distance : -1;
}

cli_command_id cli_find_command(const char *name, const char **nearest) {
  int best = 1000;
  if (nearest) *nearest = NULL;
  for (int c = 0; c < CLI_N_COMMANDS; c++) {
    if (strcmp(cli_commands[c].name, name) == 0) return (cli_command_id)c;
    int d = nearness(name, cli_commands[c].name);
    if (nearest && !cli_commands[c].hidden && d >= 0 && d < best) {
      best = d;
      *nearest = cli_commands[c].name;
    }
  }
  return CLI_N_COMMANDS;
}

/* ----------------------------------------------------------------------------------------------------------- values */

static bool parse_integer(const char *text, int64_t *out) {
  const char *s = text + (*text == '-');
  if (*s == 0) return false;
  for (const char *p = s; *p; p++) {
    if (*p < '0' || *p > '9') return false;
  }
  errno = 0;
  long long v = strtoll(text, NULL, 10);
  if (errno != 0) return false;
  *out = v;
  return true;
}

/* All 64 bits, without a sign. */
static bool parse_seed(const char *text, int64_t *out) {
  if (*text == 0 || strspn(text, "0123456789") != strlen(text)) return false;
  errno = 0;
  unsigned long long v = strtoull(text, NULL, 10);
  if (errno != 0) return false;
  *out = (int64_t)v;
  return true;
}

static bool parse_real(const char *text, double *out) {
  if (*text == 0 || strspn(text, "0123456789.eE+-") != strlen(text) || *text == '+') return false;
  char *end;
  double v = strtod(text, &end);
  if (*end != 0 || end == text || !isfinite(v)) return false;
  *out = v;
  return true;
}

/* What stands behind a number: the factor, and *text after it. 0: no unit. */
static uint64_t parse_unit(const char **text) {
  static const char letters[] = "KMGT";
  const char *s = *text, *at = *s ? strchr(letters, *s) : NULL;
  if (!at && *s == 'k') at = letters; /* as the kilo of the rest of the world */
  if (!at) return 0;
  bool binary = s[1] == 'i';
  uint64_t unit = 1;
  for (int i = 0; i <= at - letters; i++) unit *= binary ? 1024 : 1000;
  *text = s + (binary ? 2 : 1);
  return unit;
}

/* Digits after the point are worth what they are of the unit, rounded down; more than nine of them are no use. */
bool cli_parse_size(const char *text, int64_t *n_bytes) {
  uint64_t whole = 0, part = 0, scale = 1;
  const char *s = text;
  if (*s < '0' || *s > '9') return false;
  for (; *s >= '0' && *s <= '9'; s++) {
    if (whole > (INT64_MAX - 9) / 10) return false;
    whole = whole * 10 + (uint64_t)(*s - '0');
  }
  if (*s == '.') {
    const char *first = ++s;
    for (; *s >= '0' && *s <= '9'; s++, scale *= 10) {
      if (s - first == 9) return false;
      part = part * 10 + (uint64_t)(*s - '0');
    }
    if (s == first) return false;
  }
  uint64_t unit = parse_unit(&s);
  s += *s == 'B';
  if (*s || (scale > 1 && !unit)) return false;
  if (!unit) unit = 1;
  double whole_bytes = (double)whole * (double)unit;
  if (whole_bytes >= 9.2e18) return false;
  *n_bytes = (int64_t)(whole * unit + (uint64_t)((double)part / (double)scale * (double)unit));
  return true;
}

static int64_t *parse_int_list(const char *text, double min, double max, size_t *n) {
  size_t cap = 1;
  for (const char *p = text; *p; p++) cap += *p == ',';
  char *copy = ij__strdup(text);
  int64_t *list = ij__alloc_array(cap, sizeof *list);
  *n = 0;
  bool ok = copy && list;
  for (char *part = copy; ok && part;) {
    char *comma = strchr(part, ',');
    if (comma) *comma = 0;
    ok = parse_integer(part, &list[*n]) && (double)list[*n] >= min && (double)list[*n] <= max;
    (*n)++;
    part = comma ? comma + 1 : NULL;
  }
  ij__free(copy);
  if (ok) return list;
  ij__free(list);
  return NULL;
}

int32_t *cli_parse_ids(const char *text, size_t *n, const char **bad) {
  int64_t *wide = parse_int_list(text, 0, INT32_MAX, n);
  int32_t *ids = wide ? ij__alloc_array(*n, sizeof *ids) : NULL;
  if (ids) {
    for (size_t i = 0; i < *n; i++) ids[i] = (int32_t)wide[i];
  }
  ij__free(wide);
  if (!ids) *bad = "ids from 0 to 2147483647 separated by commas, such as 1,2,3";
  return ids;
}

static bool parse_bias(const char *text, cli_value *v) {
  const char *colon = strchr(text, ':');
  if (!colon) return false;
  char id_text[24];
  int64_t id;
  double bias;
  snprintf(id_text, sizeof id_text, "%.*s", (int)IJ_MIN(colon - text, 23), text);
  if (colon - text > 22 || !parse_integer(id_text, &id) || id < 0 || id > INT32_MAX) return false;
  if (strcmp(colon + 1, "-inf") == 0) {
    bias = -INFINITY;
  } else if (!parse_real(colon + 1, &bias) || fabs(bias) > 1e6) {
    return false;
  }
  ij_logit_bias *grown = ij__realloc(v->bias, (v->n + 1) * sizeof *grown);
  if (!grown) return false;
  v->bias = grown;
  v->bias[v->n++] = (ij_logit_bias){.id = (int32_t)id, .bias = (float)bias};
  return true;
}

static bool parse_word(const cli_option *o, const char *text, cli_value *v) {
  for (int i = 0; o->words[i]; i++) {
    if (strcmp(o->words[i], text) == 0) {
      v->i = i;
      v->text = o->words[i];
      return true;
    }
  }
  return false;
}

static bool rising(const int64_t *list, size_t n) {
  for (size_t i = 1; i < n; i++) {
    if (list[i] <= list[i - 1]) return false;
  }
  return true;
}

static bool parse_value(const cli_option *o, const char *text, cli_value *v) {
  const char *bad;
  switch (o->type) {
    case CLI_FLAG: v->i = 1; return true;
    case CLI_INT: return parse_integer(text, &v->i) && (double)v->i >= o->min && (double)v->i <= o->max;
    case CLI_SEED: return parse_seed(text, &v->i);
    case CLI_REAL: return parse_real(text, &v->real) && v->real >= o->min && v->real <= o->max;
    case CLI_SIZE: return cli_parse_size(text, &v->i) && (double)v->i >= o->min && (double)v->i <= o->max;
    case CLI_TEXT: v->text = text; return true;
    case CLI_PATH:
    case CLI_MEDIUM: v->text = text; return *text != 0;
    case CLI_WORD: return parse_word(o, text, v);
    case CLI_IDS: return (v->ids = cli_parse_ids(text, &v->n, &bad)) != NULL;
    case CLI_INTS: return (v->ints = parse_int_list(text, o->min, o->max, &v->n)) != NULL && rising(v->ints, v->n);
    case CLI_BIAS: return parse_bias(text, v);
  }
  return false;
}

/* What the option accepts, for the message about a bad value. */
static void describe_accepted(const cli_option *o, char *text, size_t size) {
  const char *const names[] = {
#define CLI_TYPE_NAME(id, name) name,
      CLI_TYPE_LIST(CLI_TYPE_NAME)
#undef CLI_TYPE_NAME
  };
  if (o->type == CLI_WORD) {
    int at = 0;
    for (int i = 0; o->words[i]; i++) {
      int n = snprintf(text + at, size - (size_t)at, "%s%s", i ? (o->words[i + 1] ? ", " : " or ") : "", o->words[i]);
      if (n < 0 || (size_t)(at + n) >= size) return;
      at += n;
    }
  } else if (o->type == CLI_IDS) {
    snprintf(text, size, "ids from 0 to 2147483647 separated by commas, such as 1,2,3");
  } else if (o->type == CLI_BIAS) {
    snprintf(text, size, "ID:BIAS, a token id and a number from -1e6 to 1e6 or -inf, such as 42:-1.5");
  } else if (o->type == CLI_PATH || o->type == CLI_MEDIUM) {
    snprintf(text, size, "a path that is not empty");
  } else if (o->type == CLI_SIZE) {
    snprintf(text, size, "a size such as 1500M, 3G or 2.5GiB (K, M, G, T: powers of 1000; Ki, Mi, Gi, Ti: of 1024; without a unit: bytes)");
  } else if (o->type == CLI_SEED) {
    snprintf(text, size, "an integer from 0 to 18446744073709551615");
  } else if (o->max >= 9e18) {
    snprintf(text, size, "%s from %.15g to 9223372036854775807", names[o->type], o->min);
  } else {
    snprintf(text, size, "%s from %.15g to %.15g", names[o->type], o->min, o->max);
  }
}

/* ---------------------------------------------------------------------------------------------------------- parsing */

static const cli_option *find_option(cli_command_id c, const char *name, size_t n, char letter) {
  for (int i = 0; i < cli_n_options; i++) {
    const cli_option *o = &cli_options[i];
    if (!cli_takes(o, c)) continue;
    if (letter ? o->letter == letter : o->name && strlen(o->name) == n && memcmp(o->name, name, n) == 0) return o;
  }
  return NULL;
}

static bool refuse_unknown(const cli_args *args, cli_command_id c, const char *given, char letter) {
  if (letter) {
    say_misuse(args, "unknown option '-%c'", letter);
    return false;
  }
  char name[80];
  size_t n = strcspn(given, "=");
  snprintf(name, sizeof name, "%.*s", (int)IJ_MIN(n, sizeof name - 1), given);
  const char *nearest = NULL, *elsewhere = NULL;
  int best = 1000;
  for (int i = 0; i < cli_n_options; i++) {
    const cli_option *o = &cli_options[i];
    if (!o->name) continue;
    if (!cli_takes(o, c)) {
      for (int k = 0; k < CLI_N_COMMANDS && strcmp(o->name, name) == 0 && !elsewhere; k++) {
        if (cli_takes(o, (cli_command_id)k)) elsewhere = cli_commands[k].name;
      }
      continue;
    }
    int d = nearness(name, o->name);
    if (d >= 0 && d < best) {
      best = d;
      nearest = o->name;
    }
  }
  if (elsewhere) {
    say_misuse(args, "unknown option '--%s': it belongs to 'inkjet %s'", name, elsewhere);
  } else if (nearest) {
    say_misuse(args, "unknown option '--%s'; did you mean '--%s'?", name, nearest);
  } else {
    say_misuse(args, "unknown option '--%s'", name);
  }
  return false;
}

/* The value of option o: after '=', glued to the letter, or the next argument. */
static bool take_value(cli_args *args, const cli_option *o, const char *attached, int argc, char **argv, int *at) {
  cli_value *v = &args->v[o->id];
  const char *spelling = cli_option_spelling(o);
  if (v->set && !o->repeatable) {
    say_misuse(args, "%s is given twice", spelling);
    return false;
  }
  if (o->type == CLI_FLAG) {
    if (attached) {
      say_misuse(args, "%s takes no value, found '%s'", spelling, attached);
      return false;
    }
    v->set = true;
    return parse_value(o, "", v);
  }
  if (!attached) {
    if (*at + 1 >= argc) {
      say_misuse(args, "%s needs a value: %s", spelling, o->arg);
      return false;
    }
    attached = argv[++*at];
  }
  if (!v->set) {
    ij__free(v->ints); /* a list by default gives way to the one given */
    v->ints = NULL;
    v->n = 0;
  }
  v->set = true;
  if (parse_value(o, attached, v)) {
    if (o->type == CLI_MEDIUM) args->media[args->n_media++] = (cli_medium){o->id, attached};
    return true;
  }
  char accepted[200];
  describe_accepted(o, accepted, sizeof accepted);
  say_misuse(args, "%s: '%s' is not accepted; expected %s", spelling, attached, accepted);
  return false;
}

static bool take_positional(cli_args *args, const char *text) {
  const cli_command *c = args->command;
  if (!c->positional) {
    say_misuse(args, "unexpected argument '%s': this command takes options only", text);
    return false;
  }
  if (c->max_positional >= 0 && args->n_positional >= c->max_positional) {
    say_misuse(args, "unexpected argument '%s': only one %s is accepted%s", text, c->positional,
               strcmp(c->positional, "TEXT") == 0 ? " (put quotes around a text with spaces)" : "");
    return false;
  }
  args->positional[args->n_positional++] = text;
  return true;
}

static bool set_defaults(cli_args *args, cli_command_id c) {
  for (int i = 0; i < cli_n_options; i++) {
    const cli_option *o = &cli_options[i];
    if (cli_takes(o, c) && o->value && !parse_value(o, o->value, &args->v[o->id])) return false;
  }
  return true;
}

bool cli_parse(cli_args *args, cli_command_id command, int argc, char **argv, int from) {
  args->command = &cli_commands[command];
  args->positional = ij__alloc_array((size_t)argc + 1, sizeof *args->positional);
  args->media = ij__alloc_array((size_t)argc + 1, sizeof *args->media);
  if (!args->positional || !args->media || !set_defaults(args, command)) {
    say("not enough memory to read the command line");
    return false;
  }
  bool options_over = false;
  for (int at = from; at < argc; at++) {
    const char *a = argv[at];
    const cli_option *o;
    const char *attached = NULL;
    if (options_over || a[0] != '-' || a[1] == 0) {
      if (!take_positional(args, a)) return false;
      continue;
    }
    if (strcmp(a, "--") == 0) {
      options_over = true;
      continue;
    }
    if (a[1] == '-') {
      size_t n = strcspn(a + 2, "=");
      o = find_option(command, a + 2, n, 0);
      if (!o) return refuse_unknown(args, command, a + 2, 0);
      if (a[2 + n] == '=') attached = a + 3 + n;
    } else {
      o = find_option(command, NULL, 0, a[1]);
      if (!o) return refuse_unknown(args, command, NULL, a[1]);
      if (a[2]) attached = a + 2;
    }
    if (!take_value(args, o, attached, argc, argv, &at)) return false;
    if (o->id == OPT_HELP || o->id == OPT_VERSION) return true;
  }
  return true;
}

void cli_args_free(cli_args *args) {
  for (int i = 0; i < CLI_N_OPTIONS; i++) {
    ij__free(args->v[i].ids);
    ij__free(args->v[i].ints);
    ij__free(args->v[i].bias);
  }
  ij__free((void *)(uintptr_t)args->positional);
  ij__free(args->media);
}
