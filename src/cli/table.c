/* table.c: the command table. Every word of the interface is here, in the order in which the help shows it.
 *
 * Defaults in `value` are parsed by the same code as what the user writes; `default_note` is for those that depend on something.
 */
#include "cli/cli.h"
#include "core/cpu.h"

#define BIT(c) (1u << CMD_##c)
#define GENERATING (BIT(RUN) | BIT(CHAT))
#define MODEL_COMMANDS (GENERATING | BIT(EMBED) | BIT(LOGITS) | BIT(INFO) | BIT(BENCH) | BIT(SERVE))
#define STEPPING (GENERATING | BIT(LOGITS) | BIT(BENCH) | BIT(SERVE)) /* open a model and evaluate tokens */
#define MEDIA_COMMANDS (GENERATING | BIT(EMBED) | BIT(INFO))
#define ALL_COMMANDS ((1u << CLI_N_COMMANDS) - 1)

#define NO_LIMIT 9223372036854775807.0
#define MAX_CTX 1099511627776.0 /* 2^40: beyond any memory, so that sums of positions cannot overflow */

static const char *const predict_words[] = {"auto", "off", "on", NULL}; /* the order of ij_predict */
static const char *const kv_words[] = {"bf16", "f16", "f32", NULL}; /* the order of ij_kv_type */

static const char *const home_words[] = {"auto", "mapped", "resident", "streamed", NULL}; /* the order of ij_home */

static const char *const level_words[] = {
#define LEVEL_WORD(id, word) word,
    IJ_LEVEL_LIST(LEVEL_WORD)
#undef LEVEL_WORD
    NULL};

const cli_option cli_options[] = {
    {.id = OPT_MODEL, .commands = MODEL_COMMANDS, .letter = 'm', .name = "model", .type = CLI_PATH, .arg = "PATH", .group = "Model",
     .default_note = "the built-in demo model", .help = "checkpoint: a folder, a .safetensors file, or a .gguf file (any part of a split one)"},
    {.id = OPT_MODEL, .commands = BIT(TOKENIZE) | BIT(DETOKENIZE), .letter = 'm', .name = "model", .type = CLI_PATH, .arg = "PATH",
     .group = "Model", .default_note = "the built-in demo model", .help = "use the tokenizer that lies with this checkpoint"},
    {.id = OPT_TOKENIZER, .commands = GENERATING | BIT(LOGITS) | BIT(TOKENIZE) | BIT(DETOKENIZE), .name = "tokenizer", .type = CLI_PATH,
     .arg = "PATH", .group = "Model", .help = "tokenizer.json, a tiktoken rank file, a .gguf file, or a folder that holds one",
     .default_note = "the one that lies with the checkpoint"},
    {.id = OPT_MMPROJ, .commands = MEDIA_COMMANDS | BIT(SERVE) | BIT(BENCH), .name = "mmproj", .type = CLI_PATH, .arg = "FILE", .group = "Model",
     .default_note = "those of the checkpoint", .help = "take the towers for pictures and sounds from this GGUF file or checkpoint"},
    {.id = OPT_THREADS, .commands = MODEL_COMMANDS, .name = "threads", .type = CLI_INT, .arg = "N", .min = 1, .max = 1024,
     .default_note = "one per processor", .group = "Model", .help = "threads to compute with; the result does not depend on it"},
    {.id = OPT_CTX, .commands = BIT(RUN) | BIT(LOGITS) | BIT(BENCH), .name = "ctx", .type = CLI_INT, .arg = "N", .min = 1, .max = MAX_CTX,
     .default_note = "what the run needs", .group = "Model", .help = "positions to reserve memory for"},
    {.id = OPT_CTX, .commands = BIT(CHAT), .name = "ctx", .type = CLI_INT, .arg = "N", .min = 1, .max = MAX_CTX, .value = "8192",
     .default_note = "8192, or what the model allows if that is less", .group = "Model", .help = "tokens that the conversation may reach"},
    {.id = OPT_CTX, .commands = BIT(INFO), .name = "ctx", .type = CLI_INT, .arg = "N", .min = 1, .max = MAX_CTX, .value = "8192",
     .default_note = "8192, or what the model allows if that is less", .group = "Model", .help = "positions to compute the memory for"},
    {.id = OPT_CTX, .commands = BIT(SERVE), .name = "ctx", .type = CLI_INT, .arg = "N", .min = 1, .max = MAX_CTX, .group = "Work",
     .default_note = "8192, or what the model allows if that is less", .help = "tokens that a prompt and its answer may have together"},
    {.id = OPT_KV, .commands = GENERATING | BIT(LOGITS) | BIT(BENCH) | BIT(SERVE), .name = "kv", .type = CLI_WORD, .arg = "TYPE", .words = kv_words,
     .value = "f32", .group = "Model",
     .help = "how keys and values are kept: f32 is exact; bf16 and f16 take half the memory and round, which can change the answer"},
    {.id = OPT_MEM, .commands = STEPPING, .name = "mem", .type = CLI_SIZE, .arg = "SIZE", .min = 1, .max = NO_LIMIT, .group = "Memory",
     .default_note = "what the machine, its control group and ulimit leave free, less a reserve",
     .help = "memory that all of it may take: bytes, or 1500M, 3G (powers of 1000), 2.5GiB (of 1024); what cannot work is refused with the numbers"},
    {.id = OPT_HOME, .commands = STEPPING, .name = "home", .type = CLI_WORD, .arg = "HOME", .words = home_words, .value = "auto", .group = "Memory",
     .help = "where weights are: mapped from the file, resident (read into memory once), or streamed (experts are read from the drive when they "
             "are needed); auto: mapped when everything fits, else streamed. The result does not depend on it"},
    {.id = OPT_CPU_MASK, .commands = MODEL_COMMANDS, .name = "cpu-mask", .type = CLI_WORD, .arg = "LEVEL", .words = level_words,
     .default_note = "the best this processor has", .group = "Model",
     .help = "highest kernel level to use: scalar, avx2, avx512 or neon; the result does not depend on it"},

    {.id = OPT_PREDICT, .commands = STEPPING, .name = "predict", .type = CLI_WORD, .arg = "WHEN", .words = predict_words, .value = "auto",
     .group = "Experts from disk", .help = "begin reading experts of the next layer on a guess: on, off, or auto (while it is measured to help); "
                                           "the result does not depend on it"},
    {.id = OPT_USAGE, .commands = STEPPING & ~BIT(BENCH), .name = "usage", .type = CLI_PATH, .arg = "FILE|none", .group = "Experts from disk",
     .default_note = "inkjet-experts.usage in the model's folder, or MODEL.usage beside its file",
     .help = "where it is kept which experts are used most, so that the next run holds these from the beginning; none: nowhere"},
    {.id = OPT_USAGE, .commands = BIT(BENCH), .name = "usage", .type = CLI_PATH, .arg = "FILE|none", .group = "Experts from disk", .value = "none",
     .help = "where it is kept which experts are used most; random tokens tell little about a model's use, so that none is the default here"},
    {.id = OPT_USAGE, .commands = BIT(INFO), .name = "usage", .type = CLI_PATH, .arg = "FILE", .group = "Output",
     .default_note = "inkjet-experts.usage in the model's folder, or MODEL.usage beside its file", .help = "with --experts: the file that tells"},
    {.id = OPT_TRACE_EXPERTS, .commands = BIT(RUN) | BIT(BENCH), .name = "trace-experts", .type = CLI_PATH, .arg = "FILE", .group = "Experts from disk",
     .help = "write the sequence of experts that were used, for bench_experts"},

    {.id = OPT_PROMPT, .commands = BIT(RUN) | BIT(LOGITS), .letter = 'p', .type = CLI_TEXT, .arg = "TEXT", .group = "Prompt",
     .help = "the prompt as text"},
    {.id = OPT_IDS, .commands = BIT(RUN) | BIT(LOGITS), .name = "ids", .type = CLI_IDS, .arg = "ID,ID,...", .group = "Prompt",
     .help = "the prompt as token ids; needs no tokenizer"},
    {.id = OPT_FILE, .commands = BIT(RUN) | BIT(LOGITS) | BIT(TOKENIZE), .letter = 'f', .name = "file", .type = CLI_PATH, .arg = "FILE",
     .group = "Prompt", .help = "read the text from FILE, byte for byte; - is standard input"},
    {.id = OPT_SPECIAL, .commands = BIT(RUN) | BIT(LOGITS) | BIT(TOKENIZE), .name = "special", .type = CLI_FLAG, .group = "Prompt",
     .help = "turn spelled special tokens such as <|end_message|> into their ids; use it only on text you trust"},
    {.id = OPT_NO_SPECIAL, .commands = BIT(TOKENIZE), .name = "no-special", .type = CLI_FLAG, .group = "Prompt",
     .help = "treat spelled special tokens as ordinary text (this is the default)"},

    {.id = OPT_IMAGE, .commands = BIT(RUN), .name = "image", .type = CLI_MEDIUM, .arg = "FILE", .repeatable = true, .group = "Media",
     .help = "a picture (PNG, JPEG, WebP, GIF) for the next <__media__> marker of the prompt; may be repeated"},
    {.id = OPT_AUDIO, .commands = BIT(RUN), .name = "audio", .type = CLI_MEDIUM, .arg = "FILE", .repeatable = true, .group = "Media",
     .help = "a sound (WAV, FLAC, MP3, Ogg) for the next <__media__> marker; may be repeated"},
    {.id = OPT_VIDEO, .commands = BIT(RUN), .name = "video", .type = CLI_MEDIUM, .arg = "FILE", .repeatable = true, .group = "Media",
     .help = "a video for the next <__media__> marker: its frames as a user's message; may be repeated"},
    {.id = OPT_IMAGE, .commands = BIT(CHAT), .name = "image", .type = CLI_MEDIUM, .arg = "FILE", .repeatable = true, .group = "Media",
     .help = "a picture (PNG, JPEG, WebP, GIF) before the text of the message; may be repeated"},
    {.id = OPT_AUDIO, .commands = BIT(CHAT), .name = "audio", .type = CLI_MEDIUM, .arg = "FILE", .repeatable = true, .group = "Media",
     .help = "a sound (WAV, FLAC, MP3, Ogg) before the text of the message; may be repeated"},
    {.id = OPT_VIDEO, .commands = BIT(CHAT), .name = "video", .type = CLI_MEDIUM, .arg = "FILE", .repeatable = true, .group = "Media",
     .help = "a video before the text of the message; may be repeated"},
    {.id = OPT_IMAGE, .commands = BIT(EMBED), .name = "image", .type = CLI_MEDIUM, .arg = "FILE", .group = "Media",
     .help = "the picture to encode"},
    {.id = OPT_AUDIO, .commands = BIT(EMBED), .name = "audio", .type = CLI_MEDIUM, .arg = "FILE", .group = "Media",
     .help = "the sound to encode"},
    {.id = OPT_MEDIA_FILE, .commands = BIT(INFO), .name = "media", .type = CLI_PATH, .arg = "FILE", .group = "Media",
     .help = "tell about this picture, sound or video instead, and what it costs in tokens"},
    {.id = OPT_MAX_LONG_EDGE, .commands = MEDIA_COMMANDS | BIT(SERVE), .name = "max-long-edge", .type = CLI_INT, .arg = "N", .min = 1, .max = 1000000,
     .group = "Media", .default_note = "no limit", .help = "reduce pictures whose longer side has more than N pixels to that"},
    {.id = OPT_VIDEO_FPS, .commands = GENERATING | BIT(INFO), .name = "video-fps", .type = CLI_REAL, .arg = "X", .min = 0.001, .max = 1000,
     .value = "2", .group = "Media", .help = "frames taken of a second of a video"},
    {.id = OPT_VIDEO_FRAMES, .commands = GENERATING | BIT(INFO), .name = "video-frames", .type = CLI_INT, .arg = "N", .min = 1, .max = 4096,
     .value = "32", .group = "Media", .help = "frames taken of a video at most, evenly over its length"},
    {.id = OPT_VIDEO_STILLS, .commands = GENERATING | BIT(INFO), .name = "video-stills", .type = CLI_FLAG, .group = "Media",
     .help = "every frame of a video is a picture of its own, instead of two in one; twice the tokens"},
    {.id = OPT_VIDEO_SOUND, .commands = GENERATING | BIT(INFO), .name = "video-sound", .type = CLI_FLAG, .group = "Media",
     .help = "also the sound of a video, after its frames"},

    {.id = OPT_SYSTEM, .commands = BIT(CHAT), .name = "system", .type = CLI_TEXT, .arg = "TEXT", .group = "Prompt",
     .help = "what the model is told before the conversation"},
    {.id = OPT_EFFORT, .commands = BIT(CHAT), .name = "effort", .type = CLI_TEXT, .arg = "E", .group = "Prompt", .default_note = "high",
     .help = "how much to think: none, minimal, low, medium, high, xhigh, max, or a number from 0 to 0.99"},
    {.id = OPT_LOAD, .commands = BIT(CHAT), .name = "load", .type = CLI_PATH, .arg = "FILE", .group = "Prompt",
     .help = "begin with the messages of FILE: JSON in the form of OpenAI's chat completions, as /save writes it"},
    {.id = OPT_TOOLS, .commands = BIT(CHAT), .name = "tools", .type = CLI_PATH, .arg = "FILE", .group = "Prompt",
     .help = "tools that the model may call: a JSON array in the form of OpenAI's chat completions; calls are printed, not made"},
    {.id = OPT_SCHEMA, .commands = BIT(CHAT), .name = "schema", .type = CLI_PATH, .arg = "FILE", .group = "Generation",
     .help = "keep every answer inside the JSON Schema in FILE"},

    {.id = OPT_N, .commands = BIT(CHAT), .letter = 'n', .type = CLI_INT, .arg = "N", .min = 1, .max = MAX_CTX,
     .default_note = "until the model ends it or --ctx is reached", .group = "Generation",
     .help = "tokens of an answer at most, thinking included"},
    {.id = OPT_N, .commands = BIT(RUN), .letter = 'n', .type = CLI_INT, .arg = "N", .min = 1, .max = MAX_CTX, .value = "128",
     .group = "Generation", .help = "tokens to generate at most"},
    {.id = OPT_IGNORE_EOS, .commands = BIT(RUN), .name = "ignore-eos", .type = CLI_FLAG, .group = "Generation",
     .help = "go on after the end token instead of stopping"},

    {.id = OPT_TEMP, .commands = GENERATING, .name = "temp", .type = CLI_REAL, .arg = "T", .min = 0, .max = 100, .group = "Sampling",
     .default_note = "0 (greedy); 1 when another sampling option is given", .help = "temperature"},
    {.id = OPT_TOP_K, .commands = GENERATING, .name = "top-k", .type = CLI_INT, .arg = "K", .min = 0, .max = 2147483647, .value = "0",
     .group = "Sampling", .help = "draw from the K most likely tokens; 0: off"},
    {.id = OPT_TOP_P, .commands = GENERATING, .name = "top-p", .type = CLI_REAL, .arg = "P", .min = 0, .max = 1, .value = "1",
     .group = "Sampling", .help = "draw from the smallest set with at least this probability; 1: off"},
    {.id = OPT_MIN_P, .commands = GENERATING, .name = "min-p", .type = CLI_REAL, .arg = "P", .min = 0, .max = 1, .value = "0",
     .group = "Sampling", .help = "draw from tokens at least this fraction as likely as the best; 0: off"},
    {.id = OPT_SEED, .commands = GENERATING, .name = "seed", .type = CLI_SEED, .arg = "N", .value = "0",
     .group = "Sampling", .help = "the draws depend on the seed and the position only"},
    {.id = OPT_REPETITION_PENALTY, .commands = GENERATING, .name = "repetition-penalty", .type = CLI_REAL, .arg = "X", .min = 0.01,
     .max = 100, .value = "1", .group = "Sampling", .help = "divide positive and multiply negative logits of tokens seen; 1: off"},
    {.id = OPT_PRESENCE_PENALTY, .commands = GENERATING, .name = "presence-penalty", .type = CLI_REAL, .arg = "X", .min = -100, .max = 100,
     .value = "0", .group = "Sampling", .help = "subtract from the logit of each token seen"},
    {.id = OPT_FREQUENCY_PENALTY, .commands = GENERATING, .name = "frequency-penalty", .type = CLI_REAL, .arg = "X", .min = -100,
     .max = 100, .value = "0", .group = "Sampling", .help = "subtract from the logit of a token for each time it was seen"},
    {.id = OPT_PENALTY_WINDOW, .commands = GENERATING, .name = "penalty-window", .type = CLI_INT, .arg = "N", .min = -1, .max = NO_LIMIT,
     .value = "-1", .group = "Sampling", .help = "how many of the last tokens the penalties look at; -1: all"},
    {.id = OPT_LOGIT_BIAS, .commands = GENERATING, .name = "logit-bias", .type = CLI_BIAS, .arg = "ID:BIAS", .repeatable = true,
     .group = "Sampling", .help = "add BIAS to the logit of token ID, -inf forbids it; may be repeated"},

    {.id = OPT_OUT, .commands = BIT(EMBED), .name = "out", .type = CLI_PATH, .arg = "FILE", .group = "Output",
     .help = "write the rows to FILE (safetensors)"},
    {.id = OPT_OUT, .commands = BIT(LOGITS), .name = "out", .type = CLI_PATH, .arg = "FILE", .group = "Output",
     .help = "write the tensors to FILE (safetensors)"},
    {.id = OPT_ALL, .commands = BIT(LOGITS), .name = "all", .type = CLI_FLAG, .group = "Output",
     .help = "logits after every token instead of after the last"},
    {.id = OPT_TRACE, .commands = BIT(LOGITS), .name = "trace", .type = CLI_FLAG, .group = "Output",
     .help = "also the residual stream after the embedding and after each layer"},
    {.id = OPT_COMPARE, .commands = BIT(LOGITS), .name = "compare", .type = CLI_PATH, .arg = "FILE", .group = "Comparison",
     .help = "compare with the tensors of the same names in FILE (safetensors, F32 or F64)"},
    {.id = OPT_MAX_ABS, .commands = BIT(LOGITS), .name = "max-abs", .type = CLI_REAL, .arg = "X", .min = 0, .max = 1e30, .value = "1e-4",
     .group = "Comparison", .help = "largest absolute difference that is still success"},
    {.id = OPT_CHUNK, .commands = BIT(LOGITS), .name = "chunk", .type = CLI_INT, .arg = "N", .min = 1, .max = 65536, .value = "512",
     .group = "Comparison", .help = "evaluate N tokens at a time; the result does not depend on it"},

    {.id = OPT_IDS_OUT, .commands = BIT(RUN), .name = "ids-out", .type = CLI_FLAG, .group = "Output",
     .help = "print token ids instead of text; so it is without a tokenizer"},
    {.id = OPT_LOGPROBS, .commands = BIT(RUN), .name = "logprobs", .type = CLI_INT, .arg = "N", .min = 0, .max = IJ_MAX_TOP,
     .group = "Output", .help = "with --json: log-probability of each token, and of the N most likely ones in its place"},
    {.id = OPT_SHOW_THINKING, .commands = BIT(CHAT), .name = "show-thinking", .type = CLI_FLAG, .group = "Output",
     .help = "print the reasoning on standard error, also when that is no terminal"},
    {.id = OPT_JSON, .commands = GENERATING | BIT(TOKENIZE) | BIT(INFO) | BIT(BENCH), .name = "json", .type = CLI_FLAG, .group = "Output",
     .help = "print one JSON value, for programs"},
    {.id = OPT_TENSORS, .commands = BIT(INFO), .name = "tensors", .type = CLI_FLAG, .group = "Output", .help = "list every tensor"},
    {.id = OPT_EXPERTS, .commands = BIT(INFO), .name = "experts", .type = CLI_FLAG, .group = "Output",
     .help = "tell how the experts were used in earlier runs that read them from disk, instead"},
    {.id = OPT_PLAN, .commands = BIT(INFO), .name = "plan", .type = CLI_FLAG, .group = "Plan",
     .help = "tell instead what memory there is, what a run of --ctx positions would take, and what of the model would be in memory"},
    {.id = OPT_MEM, .commands = BIT(INFO), .name = "mem", .type = CLI_SIZE, .arg = "SIZE", .min = 1, .max = NO_LIMIT, .group = "Plan",
     .default_note = "what the machine, its control group and ulimit leave free, less a reserve",
     .help = "with --plan or --experts: memory that all of it may take: bytes, or 1500M, 3G (powers of 1000), 2.5GiB (of 1024)"},
    {.id = OPT_HOME, .commands = BIT(INFO), .name = "home", .type = CLI_WORD, .arg = "HOME", .words = home_words, .value = "auto", .group = "Plan",
     .help = "with --plan or --experts: plan for this home of weights: mapped, resident or streamed; auto: mapped when everything fits, else streamed"},
    {.id = OPT_KV, .commands = BIT(INFO), .name = "kv", .type = CLI_WORD, .arg = "TYPE", .words = kv_words, .value = "f32", .group = "Plan",
     .help = "with --plan or --experts: plan for keys and values of this type"},
    {.id = OPT_DRIVE, .commands = BIT(INFO), .name = "drive", .type = CLI_FLAG, .group = "Plan",
     .help = "with --plan: measure how fast the model can be read from its drive, which takes a second, and what that means for tokens"},

    {.id = OPT_SYNTHETIC, .commands = BIT(BENCH), .name = "synthetic", .type = CLI_TEXT, .arg = "SIZE[:FORMAT][:zipfS]", .group = "Model",
     .help = "measure a random model of the full architecture: 3b (6.3 GB in BF16), 24b (13.7 GB in q4_k, to be streamed), try (55 MB), tiny (2 MB) or "
             "towers (200 MB, for --media); FORMAT stores it in another form: q8_0, q4_k, iq2_xxs and the other types of GGUF, mlx2 to mlx8, mlx-mxfp4, or nvfp4 (routed experts only, as in "
             "the release); a name that does not exist brings the list; with zipf0.5, zipf1, zipf1.5 or zipf2 some experts are used more than others"},
    {.id = OPT_KEEP, .commands = BIT(BENCH), .name = "keep", .type = CLI_PATH, .arg = "DIR", .group = "Model",
     .default_note = "a temporary folder, deleted at the end", .help = "write the synthetic model into DIR and leave it there, or use it when it is there"},
    {.id = OPT_PROMPT_LEN, .commands = BIT(BENCH), .name = "prompt", .type = CLI_INT, .arg = "N", .min = 1, .max = MAX_CTX, .value = "512",
     .group = "Measurement", .help = "tokens of the prefill"},
    {.id = OPT_GEN, .commands = BIT(BENCH), .name = "gen", .type = CLI_INT, .arg = "N", .min = 1, .max = 1000000, .value = "32",
     .group = "Measurement", .help = "tokens decoded in each repetition"},
    {.id = OPT_DEPTH, .commands = BIT(BENCH), .name = "depth", .type = CLI_INTS, .arg = "N,N,...", .min = 1, .max = MAX_CTX,
     .group = "Measurement", .help = "also decode after this many positions, e.g. 1024,32768; the context is really evaluated"},
    {.id = OPT_REPEAT, .commands = BIT(BENCH), .name = "repeat", .type = CLI_INT, .arg = "N", .min = 1, .max = 1000, .value = "5",
     .group = "Measurement", .help = "repetitions of each measurement; medians are reported"},
    {.id = OPT_BENCH_MEDIA, .commands = BIT(BENCH), .name = "media", .type = CLI_FLAG, .group = "Measurement",
     .help = "measure the towers alone: a picture of 1024 x 1024 pixels and a sound of 60 s"},

    {.id = OPT_HOST, .commands = BIT(SERVE), .name = "host", .type = CLI_TEXT, .arg = "ADDRESS", .value = "127.0.0.1", .group = "Network",
     .help = "address to listen on; anything but a loopback address makes the server reachable from elsewhere: give it keys then"},
    {.id = OPT_PORT, .commands = BIT(SERVE), .name = "port", .type = CLI_INT, .arg = "N", .min = 0, .max = 65535, .value = "8080",
     .group = "Network", .help = "port to listen on; 0: any free one, which is then printed"},
    {.id = OPT_API_KEY_FILE, .commands = BIT(SERVE), .name = "api-key-file", .type = CLI_PATH, .arg = "FILE", .group = "Network",
     .default_note = "no key is needed", .help = "keys that clients must have one of, one per line; lines that begin with # are comments"},
    {.id = OPT_CORS_ORIGIN, .commands = BIT(SERVE), .name = "cors-origin", .type = CLI_TEXT, .arg = "ORIGIN,...", .group = "Network",
     .default_note = "none", .help = "origins whose web pages may use the server, such as https://example.org; * is every one"},
    {.id = OPT_ALLOW_HOST, .commands = BIT(SERVE), .name = "allow-host", .type = CLI_TEXT, .arg = "NAME,...", .group = "Network",
     .default_note = "localhost and loopback addresses", .help = "further names that the Host header may have while the address is a loopback one"},
    {.id = OPT_MODEL_NAME, .commands = BIT(SERVE), .name = "model-name", .type = CLI_TEXT, .arg = "NAME", .group = "Network",
     .default_note = "the last part of PATH", .help = "what the server calls the model"},
    {.id = OPT_PARALLEL, .commands = BIT(SERVE), .name = "parallel", .type = CLI_INT, .arg = "N", .min = 1, .max = 256, .value = "8",
     .group = "Work", .help = "answers that are computed at once; each reserves --ctx positions"},
    {.id = OPT_QUEUE, .commands = BIT(SERVE), .name = "queue", .type = CLI_INT, .arg = "N", .min = 0, .max = 100000, .value = "64",
     .group = "Work", .help = "requests that may wait; one more is answered with status 429"},
    {.id = OPT_CACHE, .commands = BIT(SERVE), .name = "cache", .type = CLI_INT, .arg = "MB", .min = 0, .max = 16777216, .value = "2048",
     .default_note = "2048; a sixteenth of the memory where experts are read from disk", .group = "Work", .help = "memory for states of earlier prompts, so that only what is new is read; 0: off"},
    {.id = OPT_CACHE_DIR, .commands = BIT(SERVE), .name = "cache-dir", .type = CLI_PATH, .arg = "DIR", .group = "Work",
     .default_note = "nowhere", .help = "folder for states that memory has no room for"},
    {.id = OPT_CACHE_DIR_SIZE, .commands = BIT(SERVE), .name = "cache-dir-size", .type = CLI_INT, .arg = "MB", .min = 1, .max = 1073741824,
     .value = "8192", .group = "Work", .help = "how large that folder may become"},
    {.id = OPT_MEDIA_CACHE, .commands = BIT(SERVE), .name = "media-cache", .type = CLI_INT, .arg = "MB", .min = 0, .max = 16777216,
     .value = "256", .default_note = "256; at most a 64th of the memory where experts are read from disk", .group = "Work", .help = "memory for encoded pictures and sounds, so that the same one is not encoded again; 0: off"},
    {.id = OPT_REMOTE_MEDIA, .commands = BIT(SERVE), .name = "allow-remote-media", .type = CLI_FLAG, .group = "Limits",
     .help = "fetch pictures, sounds and videos from http and https URLs in messages; by default only data: URLs are read"},
    {.id = OPT_DRAIN, .commands = BIT(SERVE), .name = "drain", .type = CLI_INT, .arg = "S", .min = 0, .max = 86400, .value = "30",
     .group = "Work", .help = "seconds that running answers get after Ctrl-C or SIGTERM; a second Ctrl-C ends at once"},
    {.id = OPT_MAX_BODY, .commands = BIT(SERVE), .name = "max-body", .type = CLI_INT, .arg = "MB", .min = 1, .max = 4096, .value = "32",
     .group = "Limits", .help = "size of a request's body (status 413); all bodies together may take eight times that"},
    {.id = OPT_MAX_HEADER, .commands = BIT(SERVE), .name = "max-header", .type = CLI_INT, .arg = "KB", .min = 1, .max = 1024, .value = "32",
     .group = "Limits", .help = "size of a request's head (status 431)"},
    {.id = OPT_MAX_CONNECTIONS, .commands = BIT(SERVE), .name = "max-connections", .type = CLI_INT, .arg = "N", .min = 1, .max = 1000000,
     .value = "512", .group = "Limits", .help = "open connections; beyond, the one that has been idle longest is closed"},
    {.id = OPT_MAX_PER_ADDRESS, .commands = BIT(SERVE), .name = "max-per-address", .type = CLI_INT, .arg = "N", .min = 0, .max = 1000000,
     .value = "0", .group = "Limits", .help = "open connections of one client address; 0: no limit of its own"},
    {.id = OPT_IDLE, .commands = BIT(SERVE), .name = "idle-timeout", .type = CLI_INT, .arg = "S", .min = 1, .max = 86400, .value = "75",
     .group = "Limits", .help = "seconds after which a connection without any progress is closed"},
    {.id = OPT_REQUEST_TIME, .commands = BIT(SERVE), .name = "request-timeout", .type = CLI_INT, .arg = "S", .min = 1, .max = 86400,
     .value = "60", .group = "Limits", .help = "seconds in which a request must have arrived in full (status 408)"},

    {.id = OPT_VERBOSE, .commands = ALL_COMMANDS & ~(BIT(HELP) | BIT(MAN) | BIT(COMPLETION)), .name = "verbose", .type = CLI_FLAG,
     .group = "General", .help = "timings and details on standard error"},
    {.id = OPT_HELP, .commands = ALL_COMMANDS, .letter = 'h', .name = "help", .type = CLI_FLAG, .group = "General", .help = "show this help"},
    {.id = OPT_VERSION, .commands = ALL_COMMANDS, .name = "version", .type = CLI_FLAG, .group = "General", .help = "print the version"},
};

const int cli_n_options = IJ_COUNT_OF(cli_options);

#define LINES(...) ((const char *const[]){__VA_ARGS__, NULL})

const cli_command cli_commands[CLI_N_COMMANDS] = {
    [CMD_RUN] = {
        .name = "run", .run = cmd_run, .positional = "TEXT", .max_positional = 1,
        .synopsis = LINES("run [-m PATH] [options] TEXT", "run [-m PATH] [options] -p TEXT | -f FILE | --ids ID,ID,...",
                          "run [-m PATH] [options] --image FILE | --audio FILE | --video FILE ... TEXT"),
        .summary = "continue a prompt",
        .about = "Continues a raw prompt and prints the continuation as it comes. It is greedy unless --temp, --top-k, --top-p, --min-p or "
                 "--seed is given. No token is put before the prompt, so it must not be empty. Ctrl-C ends after the current token. Each "
                 "<__media__> in the prompt is replaced by what the next --image, --audio or --video costs: the rows of a picture or sound "
                 "and nothing around them, so that the framing is yours (with --special), or the messages of a video's frames.",
        .examples = LINES("inkjet run -m model -n 32 'Once upon a time'", "inkjet run -m model --temp 0.8 --seed 7 -f prompt.txt",
                          "inkjet run -m model --ids 976,9029,328 --ids-out",
                          "inkjet run -m model --image cat.png --special '<|message_user|><|content_image|><__media__><|end_message|>"
                          "<|message_model|><|content_text|>'")},
    [CMD_CHAT] = {
        .name = "chat", .run = cmd_chat, .positional = "TEXT", .max_positional = 1,
        .synopsis = LINES("chat [-m PATH] [options] TEXT", "chat [-m PATH] [options] < FILE", "chat [-m PATH] [options]"),
        .summary = "one answer, or a conversation on the terminal",
        .about = "With TEXT, or with text on standard input, prints the answer and ends. Without both, on a terminal, it is a conversation: "
                 "/help there lists its commands, Ctrl-C stops an answer, Ctrl-D leaves. Answers are greedy unless --temp, --top-k, --top-p, "
                 "--min-p or --seed is given. The reasoning is shown when standard error is a terminal, and never on standard output, "
                 "except in a conversation, where /think folds it. Pictures, sounds and videos stand before the text in the order in which they "
                 "are given; what they cost is said before they are read. In a conversation they go with the first message, and /image, "
                 "/audio and /video attach more.",
        .examples = LINES("inkjet chat -m model", "inkjet chat -m model --effort low 'What is 17 times 23?'",
                          "inkjet chat -m model --image cat.png --image dog.jpg 'Which of them is older?'",
                          "inkjet chat -m model --audio note.wav 'Write down what is said.'",
                          "inkjet chat -m model --schema person.json --json < letter.txt")},
    [CMD_EMBED] = {
        .name = "embed", .run = cmd_embed,
        .synopsis = LINES("embed [-m PATH | --mmproj FILE] [options] --image FILE | --audio FILE --out FILE"),
        .summary = "what a tower makes of a picture or a sound",
        .about = "Writes the tensor `rows` [n, hidden] in F32: the rows that stand in for the tokens of the picture or sound, in reading order. "
                 "Only the towers are opened, not the decoder. The file appears when it is complete.",
        .examples = LINES("inkjet embed -m model --image cat.png --out cat.safetensors",
                          "inkjet embed --mmproj mmproj.gguf --audio note.wav --out note.safetensors")},
    [CMD_LOGITS] = {
        .name = "logits", .run = cmd_logits,
        .synopsis = LINES("logits [-m PATH] [options] --ids ID,ID,... --out FILE", "logits [-m PATH] [options] --ids ID,ID,... --compare FILE"),
        .summary = "write or compare logits and layer outputs",
        .about = "Evaluates a prompt once and writes the tensors `logits` [n, vocabulary] and, with --trace, `trace` [layers + 1, n, hidden], "
                 "or compares them with those of a reference file. The exit code is 1 when a difference exceeds --max-abs.",
        .examples = LINES("inkjet logits -m model --ids 1,2,3 --all --trace --out got.safetensors",
                          "inkjet logits -m model --ids 1,2,3 --all --compare want.safetensors --max-abs 1e-4")},
    [CMD_TOKENIZE] = {
        .name = "tokenize", .run = cmd_tokenize, .positional = "TEXT", .max_positional = 1,
        .synopsis = LINES("tokenize [-m PATH | --tokenizer PATH] [options] [TEXT | -f FILE]"),
        .summary = "text to token ids",
        .about = "Prints the ids of a text on one line, separated by spaces. Without TEXT and -f the text is read from standard input. "
                 "Any bytes are accepted and come back from `inkjet detokenize` unchanged.",
        .examples = LINES("inkjet tokenize --tokenizer o200k_base.tiktoken 'Once upon a time'", "inkjet tokenize -m model --json < book.txt")},
    [CMD_DETOKENIZE] = {
        .name = "detokenize", .run = cmd_detokenize, .positional = "ID", .max_positional = -1,
        .synopsis = LINES("detokenize [-m PATH | --tokenizer PATH] [ID...]"),
        .summary = "token ids to bytes",
        .about = "Writes the bytes of the ids, nothing added. Without arguments the ids are read from standard input, separated by blanks, "
                 "line ends or commas. Special tokens are written by name.",
        .examples = LINES("inkjet detokenize --tokenizer o200k_base.tiktoken 12650", "inkjet tokenize -m model -f a | inkjet detokenize -m model | cmp - a")},
    [CMD_INFO] = {
        .name = "info", .run = cmd_info, .positional = "PATH", .max_positional = 1,
        .synopsis = LINES("info [PATH] [--tensors] [--ctx N] [--json]", "info [PATH] --plan [--mem SIZE] [--home HOME] [--ctx N] [--kv TYPE] [--drive] [--json]",
                          "info [PATH] --experts [--usage FILE] [--mem SIZE] [--ctx N] [--json]",
                          "info --media FILE [-m PATH | --mmproj FILE] [--max-long-edge N] [--json]"),
        .summary = "what a checkpoint is, or a picture, sound or video",
        .about = "Shows sizes, layout, storage formats per class of tensor, and the memory a run of --ctx positions needs. With --plan, what "
                 "memory there is and how it would be used, before anything is loaded; the exit code is 1 when it would not work. With --media, what a "
                 "file is, how it would be prepared, and what it would cost in tokens: for the model that is named, or else for the published "
                 "models (patches of 40 pixels, no rescaling).",
        .examples = LINES("inkjet info model --ctx 32768", "inkjet info model --tensors --json", "inkjet info model --plan --mem 16G --drive",
                          "inkjet info --media cat.png")},
    [CMD_BENCH] = {
        .name = "bench", .run = cmd_bench,
        .synopsis = LINES("bench [-m PATH] [options]", "bench --synthetic SIZE[:FORMAT][:zipfS] [--keep DIR] [options]",
                          "bench --media [-m PATH | --synthetic towers] [options]"),
        .summary = "speed, as a share of what this machine can do",
        .about = "Measures the time to the first token, prefill and decode, and states them as shares of this machine's read bandwidth and "
                 "multiply-add peak. Those are measured again around every repetition, because machines are shared and change; shares are "
                 "the numbers to compare.",
        .examples = LINES("inkjet bench -m model", "inkjet bench --synthetic 3b --keep bench-3b --threads 2 --depth 1024,32768")},
    [CMD_SERVE] = {
        .name = "serve", .run = cmd_serve,
        .synopsis = LINES("serve [-m PATH] [options]"),
        .summary = "answer over HTTP, as OpenAI's and Anthropic's servers do",
        .about = "Serves the model to programs that speak to OpenAI's or Anthropic's API, and a page for browsers. It listens on this "
                 "machine only unless --host says otherwise, does no encryption (put a reverse proxy before it for that), and prints its "
                 "address once it is ready. Ctrl-C or SIGTERM ends it: running answers are finished first.",
        .examples = LINES("inkjet serve -m model", "inkjet serve -m model --port 0 --parallel 4 --ctx 32768",
                          "inkjet serve -m model --host 0.0.0.0 --api-key-file keys.txt")},
    [CMD_HELP] = {
        .name = "help", .run = cmd_help, .positional = "COMMAND", .max_positional = 1, .hidden = true,
        .synopsis = LINES("help [COMMAND]"), .summary = "list the commands, or explain one", .about = "Lists the commands, or explains one."},
    [CMD_MAN] = {
        .name = "man", .run = cmd_man, .hidden = true,
        .synopsis = LINES("man"), .summary = "print the manual page", .about = "Prints this manual page as man(7) source.",
        .examples = LINES("inkjet man > inkjet.1")},
    [CMD_COMPLETION] = {
        .name = "completion", .run = cmd_completion, .positional = "SHELL", .max_positional = 1, .hidden = true,
        .synopsis = LINES("completion bash | zsh"), .summary = "print the completion script of a shell",
        .about = "Prints a script that completes commands, options and values.",
        .examples = LINES("source <(inkjet completion bash)", "inkjet completion zsh > ~/.zfunc/_inkjet")},
};
