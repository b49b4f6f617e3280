/* args.h: the shape of the command table, and what parsing gives.
 *
 * One table (table.c) drives the parser, the help, the manual page and the shell completions, so they cannot disagree. A value is
 * taken exactly as written or refused: nothing is ignored, shortened or coerced. Names here start with cli_: the program is a user
 * of the library like any other, and its symbols are not the library's.
 */
#ifndef IJ_CLI_ARGS_H
#define IJ_CLI_ARGS_H

#include "core/base.h"
#include "inkjet.h"

typedef enum cli_option_id {
  OPT_MODEL, OPT_TOKENIZER, OPT_THREADS, OPT_CTX, OPT_CPU_MASK, OPT_KV,
  OPT_PROMPT, OPT_IDS, OPT_FILE, OPT_SPECIAL, OPT_NO_SPECIAL,
  OPT_N, OPT_IGNORE_EOS,
  OPT_TEMP, OPT_TOP_K, OPT_TOP_P, OPT_MIN_P, OPT_REPETITION_PENALTY, OPT_PRESENCE_PENALTY, OPT_FREQUENCY_PENALTY,
  OPT_PENALTY_WINDOW, OPT_LOGIT_BIAS, OPT_SEED,
  OPT_LOGPROBS, OPT_IDS_OUT, OPT_JSON,
  OPT_IMAGE, OPT_AUDIO, OPT_VIDEO, OPT_MMPROJ, OPT_MAX_LONG_EDGE, OPT_MEDIA_FILE,
  OPT_VIDEO_FPS, OPT_VIDEO_FRAMES, OPT_VIDEO_STILLS, OPT_VIDEO_SOUND,
  OPT_SYSTEM, OPT_EFFORT, OPT_LOAD, OPT_SCHEMA, OPT_TOOLS, OPT_SHOW_THINKING,
  OPT_OUT, OPT_ALL, OPT_TRACE, OPT_COMPARE, OPT_MAX_ABS, OPT_CHUNK,
  OPT_TENSORS, OPT_PLAN, OPT_DRIVE,
  OPT_MEM, OPT_HOME, OPT_USAGE, OPT_PREDICT, OPT_TRACE_EXPERTS, OPT_EXPERTS,
  OPT_SYNTHETIC, OPT_KEEP, OPT_PROMPT_LEN, OPT_GEN, OPT_DEPTH, OPT_REPEAT, OPT_BENCH_MEDIA,
  OPT_HOST, OPT_PORT, OPT_API_KEY_FILE, OPT_CORS_ORIGIN, OPT_ALLOW_HOST, OPT_MODEL_NAME, OPT_PARALLEL, OPT_QUEUE, OPT_CACHE, OPT_CACHE_DIR,
  OPT_CACHE_DIR_SIZE, OPT_MEDIA_CACHE, OPT_REMOTE_MEDIA, OPT_MAX_BODY, OPT_MAX_HEADER, OPT_MAX_CONNECTIONS, OPT_MAX_PER_ADDRESS, OPT_IDLE, OPT_REQUEST_TIME, OPT_DRAIN,
  OPT_VERBOSE, OPT_HELP, OPT_VERSION,
  CLI_N_OPTIONS
} cli_option_id;

typedef enum cli_command_id {
  CMD_RUN, CMD_CHAT, CMD_EMBED, CMD_LOGITS, CMD_TOKENIZE, CMD_DETOKENIZE, CMD_INFO, CMD_BENCH, CMD_SERVE, CMD_HELP, CMD_MAN, CMD_COMPLETION,
  CLI_N_COMMANDS
} cli_command_id;

/* How a value is written. X(identifier, what a message calls it) */
#define CLI_TYPE_LIST(X)                                  \
  X(FLAG, "nothing")                                      \
  X(INT, "an integer")                                    \
  X(SEED, "an integer")                                   \
  X(REAL, "a number")                                     \
  X(SIZE, "a size")                                       \
  X(TEXT, "a text")                                       \
  X(PATH, "a path")                                       \
  X(WORD, "a word")                                       \
  X(IDS, "token ids separated by commas")                 \
  X(INTS, "integers in rising order separated by commas") \
  X(BIAS, "ID:BIAS")                                      \
  X(MEDIUM, "a path")

typedef enum cli_type {
#define CLI_TYPE_ENUM(id, text) CLI_##id,
  CLI_TYPE_LIST(CLI_TYPE_ENUM)
#undef CLI_TYPE_ENUM
} cli_type;

/* One row per option and meaning: commands that give an option another meaning have a row of their own. */
typedef struct cli_option {
  cli_option_id id;
  unsigned commands;          /* bit per cli_command_id */
  char letter;                /* 0: no short form */
  const char *name;           /* NULL: no long form */
  cli_type type;
  const char *arg;            /* what the help calls the value; NULL for a flag */
  const char *value;          /* default, parsed like a given one; NULL: none */
  const char *default_note;   /* shown as the default when it is not a constant */
  double min, max;            /* INT, INTS, REAL */
  const char *const *words;   /* WORD: accepted words, NULL at the end */
  bool repeatable;
  const char *group;
  const char *help;
} cli_option;

/* What one option got. `set`: it was given; otherwise the fields hold its default. */
typedef struct cli_value {
  bool set;
  int64_t i;                  /* FLAG (0 or 1), INT, SEED (the bits of a uint64_t), SIZE (bytes), WORD (index) */
  double real;
  const char *text;           /* TEXT, PATH, WORD, MEDIUM (the last one) */
  int32_t *ids;               /* IDS */
  int64_t *ints;              /* INTS */
  ij_logit_bias *bias;        /* BIAS */
  size_t n;                   /* entries of the list in use */
} cli_value;

/* Files given by options of the type MEDIUM, in the order of the command line, whatever options they came by. */
typedef struct cli_medium {
  cli_option_id option;
  const char *path;
} cli_medium;

struct cli_args;
typedef struct cli_command {
  const char *name;
  const char *const *synopsis; /* usage lines without the program's name, NULL at the end */
  const char *summary;         /* one line for the list of commands */
  const char *about;           /* paragraphs */
  const char *const *examples; /* NULL at the end; may be NULL */
  const char *positional;      /* what an argument is called in messages; NULL: none accepted */
  int max_positional;          /* 1, or -1: any number */
  int (*run)(const struct cli_args *args);
  bool hidden;                 /* not in the list of commands */
} cli_command;

typedef struct cli_args {
  const cli_command *command;
  cli_value v[CLI_N_OPTIONS];
  const char **positional;
  int n_positional;
  cli_medium *media;
  int n_media;
  double start;                /* ij__os_seconds when the program began */
} cli_args;

extern const cli_command cli_commands[CLI_N_COMMANDS];
extern const cli_option cli_options[];
extern const int cli_n_options;

/* Fills args from argv[from..argc). On misuse says so on standard error and returns false. --help and --version end the parsing. */
bool cli_parse(cli_args *args, cli_command_id command, int argc, char **argv, int from);
void cli_args_free(cli_args *args);

/* The command of this name, or CLI_N_COMMANDS; a near miss of visible commands goes to *nearest (else NULL). */
cli_command_id cli_find_command(const char *name, const char **nearest);

static inline bool cli_takes(const cli_option *o, cli_command_id c) { return (o->commands >> c & 1) != 0; }

/* "--name" or "-n", into a buffer that the next call but three reuses. */
const char *cli_option_spelling(const cli_option *o);

/* One id list as in --ids: digits separated by commas. Ids are in [0, 2^31). NULL and *bad (a static text) on failure. */
int32_t *cli_parse_ids(const char *text, size_t *n, const char **bad);

/* A number of bytes: digits, or a number with one of the units K, M, G, T (powers of 1000) and Ki, Mi, Gi, Ti (of 1024), with or without B behind
 * it: 3000000, 1500M, 2.5GiB. False: something else, or 2^63 and more. */
bool cli_parse_size(const char *text, int64_t *n_bytes);

/* Renderers of the table. */
void cli_help(void);                       /* the list of commands, to standard output */
void cli_help_command(cli_command_id c);
void cli_man(void);
void cli_completion_bash(void);
void cli_completion_zsh(void);

#endif
