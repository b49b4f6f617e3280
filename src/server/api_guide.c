/* api_guide.c: see api_guide.h.
 *
 * Strict tools and schemas are enforced, or refused with the path of what cannot be. Without "strict" a call's arguments may be any JSON
 * object: enforcing more than was asked for would change what a trained model says.
 */
#include "server/api_guide.h"

#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "server/api_grammars.h"

/* param: the schema; what is wrong has a path of its own in there. */
static bool grammar_error(api_error *e, const ij_err *err, const char *param) {
  ij_err said = *err;
  snprintf(said.where, sizeof said.where, "%.200s%s%.300s", param, *param && err->where[0] ? ": " : "", err->where);
  ij__api_error_from(e, &said, param);
  if (e->status == 400) snprintf(e->code, sizeof e->code, "%s", err->code == IJ_E_UNSUPPORTED ? "unsupported_schema" : "invalid_schema");
  return false;
}

static bool compile_content(api_run *run, api_error *e) {
  const api_request *r = &run->r;
  ij_err err;
  const char *text = NULL;
  size_t n = 0;
  if (r->format == API_FORMAT_TEXT) return true;
  if (r->format == API_FORMAT_SCHEMA) text = r->schema.raw, n = r->schema.n_raw;
  if (r->format == API_FORMAT_REGEX) ij__jv_string(r->schema, &text, &n);
  ij_grammar_kind kind = r->format == API_FORMAT_REGEX ? IJ_GRAMMAR_REGEX : IJ_GRAMMAR_SCHEMA;
  if (ij__grammars_get(run->server->grammars, run->server->tokenizer, kind, text, n, &run->content, &err) == IJ_OK) return true;
  return grammar_error(e, &err, r->schema_param);
}

/* Arguments of strict tools follow their schema; of others any JSON object may come. */
static bool compile_arguments(api_run *run, int i, api_error *e) {
  const api_tool *t = &run->r.tools[i];
  ij_err err;
  if (t->strict == API_LOOSE || ij__json_size(t->parameters.v) == 0) return true;
  ij_status status = ij__grammars_get(run->server->grammars, run->server->tokenizer, IJ_GRAMMAR_SCHEMA, t->parameters.raw,
                                      t->parameters.n_raw, &run->args[i], &err);
  if (status == IJ_OK || (t->strict == API_STRICT_IF_POSSIBLE && status == IJ_E_UNSUPPORTED)) return true;
  return grammar_error(e, &err, run->r.schema_path(i).text);
}

static bool compile_tools(api_run *run, api_error *e) {
  api_request *r = &run->r;
  if (r->n_tools == 0) return true;
  run->args = ij__alloc_zero((size_t)r->n_tools, sizeof *run->args);
  run->guided = ij__alloc_zero((size_t)r->n_tools, sizeof *run->guided);
  if (!run->args || !run->guided) return ij__api_no_memory(e);
  for (int i = 0; i < r->n_tools; i++) {
    const api_tool *t = &r->tools[i];
    if (!t->allowed || r->choice == IJ_TOOLS_NONE) continue;
    if (!compile_arguments(run, i, e)) return false;
    run->guided[run->n_guided++] = (ij_guided_tool){t->name.bytes, t->name.n, run->args[i]};
  }
  return true;
}

bool ij__guide_compile(api_run *run, api_error *e) { return compile_content(run, e) && compile_tools(run, e); }

void ij__guide_free(api_run *run) {
  for (int i = 0; i < run->r.n_tools && run->args; i++) ij__grammars_put(run->server->grammars, &run->args[i]);
  ij__grammars_put(run->server->grammars, &run->content);
  ij__free(run->args);
  ij__free(run->guided);
}

/* A guide counts the tools that may be called; the client has sent more of them, perhaps. */
static bool guide_error(const api_run *run, const ij_err *err, api_error *e) {
  const api_request *r = &run->r;
  int k = -1, i = 0;
  ij_err said = *err;
  bool thinking = strcmp(err->where, "no_thinking") == 0 && r->effort_param; /* the word none, before reasoning that is to be continued */
  if (thinking) snprintf(said.where, sizeof said.where, "%s", r->effort_param);
  if (thinking || sscanf(err->where, "tools[%d]", &k) != 1 || k < 0 || k >= run->n_guided) return ij__api_error_from(e, &said, said.where);
  while (r->tools[i].name.bytes != run->guided[k].name) i++;
  said.where[0] = 0;
  return grammar_error(e, &said, r->schema_path(i).text);
}

bool ij__guide_make(api_run *run, ij_turn_state state, ij_guide **out, api_error *e) {
  const api_request *r = &run->r;
  ij_guide_options o = ij_guide_options_default();
  ij_err err;
  *out = NULL;
  if (r->raw || (r->format == API_FORMAT_TEXT && r->n_tools == 0 && !r->no_thinking)) return true;
  o.state = state;
  o.content = run->content;
  o.tool_choice = r->n_tools > 0 ? r->choice : r->format == API_FORMAT_TEXT ? IJ_TOOLS_AUTO : IJ_TOOLS_NONE;
  o.tools = run->guided;
  o.n_tools = run->n_guided;
  o.parallel = r->parallel;
  o.no_thinking = r->no_thinking;
  if (ij_guide_open(out, run->server->tokenizer, &o, &err) != IJ_OK) return guide_error(run, &err, e);
  return true;
}
