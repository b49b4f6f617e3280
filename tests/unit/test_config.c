/* test_config.c: config.json edited in a hundred ways over one set of tensors: the fields that come out, or the words of the error.
 *
 * A case edits the usual configuration (ckpt_writer.h); `want` is looked for in a one-line summary of the result when the case is
 * good, and every part of it between '|' in the error otherwise. */
#include <inttypes.h>

#include "ckpt_writer.h"
#include "core/alloc.h"
#include "model/config.h"

static char folder[256];

typedef struct config_case {
  const char *edits;
  ij_status status;
  const char *want;
} config_case;

static void summarize(const ij_config *c, char *buf, size_t size) {
  char kinds[64] = "", mlp[64] = "", eos[128] = "";
  for (int i = 0; i < c->n_layer && i < 60; i++) {
    kinds[i] = c->sliding[i] ? 's' : 'g';
    mlp[i] = c->dense[i] ? 'd' : 'm';
  }
  for (int i = 0; i < c->n_eos; i++) snprintf(eos + strlen(eos), sizeof eos - strlen(eos), "%s%d", i ? "," : "", (int)c->eos[i]);
  snprintf(buf, size,
           "L=%d H=%d V=%d U=%d ctx=%lld g=%d/%d/%d/%d s=%d/%d/%d/%d win=%d drel=%d floor=%g alpha=%g eps=%g K=%d D=%d I=%d E=%d k=%d "
           "SH=%d scale=%g div=%g tied=%d kinds=%s mlp=%s eos=[%s] img=%d aud=%d mtp=%d;",
           c->n_layer, c->hidden, c->vocab, c->unpadded_vocab, (long long)c->max_context, c->attn[0].n_head, c->attn[0].n_kv_head,
           c->attn[0].head_dim, c->attn[0].rel_extent, c->attn[1].n_head, c->attn[1].n_kv_head, c->attn[1].head_dim, c->attn[1].rel_extent,
           c->window, c->d_rel, c->n_floor, c->log_alpha, (double)c->eps, c->conv_kernel, c->dense_width, c->expert_width, c->n_expert,
           c->n_expert_used, c->n_shared, (double)c->route_scale, (double)c->logit_divisor, c->tied, kinds, mlp, eos, (int)c->image_token,
           (int)c->audio_token, c->n_mtp);
}

/* Opens what lies in the folder and reads its configuration. */
static ij_status read_folder(ij_config *c, ij_err *err) {
  ij_ckpt *ckpt = NULL;
  memset(err, 0, sizeof *err);
  ij_status s = ij__ckpt_open(&ckpt, folder, err);
  if (s == IJ_OK) s = ij__config_read(c, ckpt, err);
  ij__ckpt_close(&ckpt);
  return s;
}

static void has_all(const char *edits, const char *text, const char *parts) {
  while (*parts) {
    char part[256];
    size_t len = strcspn(parts, "|");
    snprintf(part, sizeof part, "%.*s", (int)len, parts);
    if (!strstr(text, part)) TEST_FAIL("edits \"%s\" give \"%s\", which lacks \"%s\"", edits, text, part);
    parts += len + (parts[len] == '|');
  }
}

static void run_cases(const config_case *cases, size_t n, bool flat) {
  for (size_t i = 0; i < n; i++) {
    static ij_config c;
    ij_err err;
    char summary[1024];
    cw_write_config(folder, cases[i].edits, flat);
    ij_status s = read_folder(&c, &err);
    if (s != cases[i].status) {
      TEST_FAIL("edits \"%s\": %s (%s), expected %s", cases[i].edits, ij_status_name(s), err.message, ij_status_name(cases[i].status));
    } else if (s == IJ_OK) {
      summarize(&c, summary, sizeof summary);
      has_all(cases[i].edits, summary, cases[i].want);
    } else {
      CHECK_HAS(err.where, folder);
      has_all(cases[i].edits, err.message, cases[i].want);
    }
  }
}

#define RUN_CASES(cases, flat) run_cases(cases, IJ_COUNT_OF(cases), flat)

static void write_tensors(const cw_dims *s) {
  static cw_model m;
  cw_build(&m, s, IJ_DTYPE_BF16);
  cw_write_tensors(&m, folder);
  cw_free(&m);
}

static void usual_tensors(void) {
  cw_dims s = cw_usual();
  write_tensors(&s);
}

/* ------------------------------------------------------------------------------------------------------------- cases */

static void every_field(void) {
  usual_tensors();
  static const config_case cases[] = {
      {"", IJ_OK,
       "L=6 H=8 V=20 U=18 ctx=4096 g=2/1/4/6 s=2/2/4/4 win=4 drel=2 floor=128000 alpha=0.25 eps=1e-05 K=4 D=16 I=8 E=4 k=2 SH=2 scale=8 "
       "div=16 tied=0 kinds=sssssg mlp=ddmmmm eos=[17] img=200054 aud=200053 mtp=3;"},
      {"model_type=\"inkling\"", IJ_OK, "L=6"},
      {"text.some_new_key={\"a\":[1,2]}\ntext.rms_norm_eps_moe_gate=3\ntext.embedding_multiplier=4\nreap={\"kept_experts\":4}", IJ_OK,
       "L=6"},
      {"text.torch_dtype=\"float8\"", IJ_OK, "L=6"},
      {"image_token_id=15\naudio_token_id=14", IJ_OK, "img=15 aud=14"},
      {"text.image_token_id=13", IJ_OK, "img=13"},
  };
  RUN_CASES(cases, false);
}

static void flat_files(void) {
  usual_tensors();
  static const config_case cases[] = {
      {"", IJ_OK, "L=6 H=8 V=20 U=18|eos=[17]"},
      {"architectures=[\"InklingForCausalLM\"]\nmodel_type=\"inkling_text\"\neos_token_id=null", IJ_OK, "D=16 I=8|eos=[]"},
      {"text.hidden_size=\"8\"", IJ_E_FORMAT, "hidden_size: expected an integer from 1 to|found \"8\""},
      {"text.q_bias=true", IJ_E_UNSUPPORTED, "q_bias: only false"},
  };
  RUN_CASES(cases, true);
}

static void what_it_is(void) {
  usual_tensors();
  static const config_case cases[] = {
      {"model_type=\"llama\"", IJ_E_UNSUPPORTED, "model_type|found \"llama\""},
      {"model_type=7", IJ_E_UNSUPPORTED, "model_type|found 7"},
      {"architectures=[\"LlamaForCausalLM\"]", IJ_E_UNSUPPORTED, "architectures|LlamaForCausalLM"},
      {"architectures=\"InklingForCausalLM\"", IJ_E_FORMAT, "architectures: expected a list"},
      {"architectures\nmodel_type", IJ_E_UNSUPPORTED, "neither model_type nor architectures"},
      {"architectures", IJ_OK, "L=6"},
      {"model_type=null", IJ_OK, "L=6"},
      {"text.model_type=\"anything\"", IJ_OK, "L=6"},
      {"quantization={\"bits\":4}", IJ_OK, "L=6"}, /* what is quantized, the tensors say */
      {"quantization=4", IJ_E_FORMAT, "quantization: expected an object, found an integer"},
      {"quantization_config={\"quant_method\":\"compressed-tensors\",\"bits\":[]}", IJ_OK, "L=6"},
      {"quantization_config={\"quant_method\":\"awq\"}", IJ_E_UNSUPPORTED,
       "quantization_config.quant_method: expected compressed-tensors, modelopt or none (MLX), found \"awq\""},
      {"quantization=null", IJ_OK, "L=6"},
  };
  RUN_CASES(cases, false);
}

static void absent_keys(void) {
  usual_tensors();
  static const config_case cases[] = {
      {"text.hidden_size", IJ_E_FORMAT, "text_config.hidden_size is missing"},
      {"text.num_hidden_layers", IJ_E_FORMAT, "num_hidden_layers is missing"},
      {"text.vocab_size", IJ_E_FORMAT, "text_config.vocab_size is missing"},
      {"text.num_attention_heads", IJ_E_FORMAT, "num_attention_heads is missing"},
      {"text.num_key_value_heads=null", IJ_E_FORMAT, "num_key_value_heads is missing"},
      {"text.sliding_window_size", IJ_E_FORMAT, "sliding_window_size is missing, but layer 0 slides"},
      {"text.num_experts_per_tok", IJ_E_FORMAT, "num_experts_per_tok is missing"},
      {"text.route_scale", IJ_E_FORMAT, "route_scale is missing"},
      {"text.logits_mup_width_multiplier", IJ_E_FORMAT, "logits_mup_width_multiplier is missing"},
      {"text.hidden_size\ntext.route_scale\ntext.q_bias=true", IJ_E_FORMAT, "hidden_size is missing|route_scale is missing|q_bias"},
      {"text.unpadded_vocab_size", IJ_OK, "V=20 U=20"},
      {"text.model_max_length", IJ_OK, "ctx=1048576"},
      {"text.head_dim\ntext.swa_head_dim", IJ_OK, "g=2/1/4/6 s=2/2/4/4"},
      {"text.swa_num_attention_heads\ntext.swa_num_key_value_heads", IJ_OK, "s=2/2/4/4"},
      {"text.d_rel\ntext.rel_extent", IJ_OK, "g=2/1/4/6|drel=2"},
      {"text.log_scaling_n_floor\ntext.log_scaling_alpha", IJ_OK, "floor=0 alpha=0.1"},
      {"text.log_scaling_n_floor=null", IJ_OK, "floor=0"},
      {"text.rms_norm_eps", IJ_OK, "eps=1e-06"},
      {"text.use_embed_norm\ntext.use_sconv\ntext.gate_activation\ntext.use_gate_bias\ntext.tie_word_embeddings", IJ_OK, "tied=0"},
      {"text.sconv_kernel_size", IJ_OK, "K=4"},
      {"text.dense_mlp_idx", IJ_OK, "mlp=ddmmmm"},
      {"text.n_routed_experts\ntext.n_shared_experts", IJ_OK, "E=4 k=2 SH=2"},
      {"mtp.num_nextn_predict_layers", IJ_OK, "mtp=0"},
  };
  RUN_CASES(cases, false);
}

static void other_spellings(void) {
  usual_tensors();
  static const config_case cases[] = {
      {"text.sliding_window_size\ntext.sliding_window=4", IJ_OK, "win=4"},
      {"text.sliding_window=4", IJ_OK, "win=4"},
      {"text.sliding_window=5", IJ_E_FORMAT, "sliding_window_size is 4, but its other spelling sliding_window is 5"},
      {"text.sliding_window=0", IJ_E_FORMAT, "sliding_window: expected an integer from 1"},
      {"text.model_max_length\ntext.max_position_embeddings=99", IJ_OK, "ctx=99"},
      {"text.max_position_embeddings=99", IJ_E_FORMAT, "max_position_embeddings is 99"},
      {"text.sconv_kernel_size\ntext.conv_kernel_size=4", IJ_OK, "K=4"},
      {"text.conv_kernel_size=3", IJ_E_FORMAT, "conv_kernel_size is 3"},
      {"text.n_routed_experts\ntext.num_local_experts=4", IJ_OK, "E=4"},
      {"text.num_local_experts=8", IJ_E_FORMAT, "num_local_experts is 8"},
      {"vocab_size=21", IJ_E_FORMAT, "vocab_size is 21, but text_config.vocab_size is 20"},
      {"vocab_size", IJ_OK, "V=20"},
      {"text.num_mtp_layers=3", IJ_OK, "mtp=3"},
      {"text.num_mtp_layers=2", IJ_E_FORMAT, "num_nextn_predict_layers is 3"},
      {"mtp.num_nextn_predict_layers\ntext.num_nextn_predict_layers=2", IJ_OK, "mtp=2"},
  };
  RUN_CASES(cases, false);
}

static void widths(void) {
  usual_tensors();
  static const config_case cases[] = {
      {"text.dense_intermediate_size\ntext.intermediate_size=16\ntext.moe_intermediate_size=8", IJ_OK, "D=16 I=8"},
      {"text.intermediate_size=777\ntext.moe_intermediate_size=8", IJ_OK, "D=16 I=8"},
      {"text.dense_intermediate_size", IJ_E_FORMAT, "dense_intermediate_size is missing"},
      {"text.intermediate_size", IJ_E_FORMAT, "intermediate_size is missing"},
      {"text.dense_intermediate_size\ntext.intermediate_size\ntext.moe_intermediate_size=8", IJ_E_FORMAT, "intermediate_size is missing"},
      {"text.intermediate_size=16\ntext.dense_intermediate_size=8", IJ_E_FORMAT,
       "layers.0.mlp.w13_dn.weight: expected [16, 8] (2 * dense width, hidden_size), found [32, 8]|"
       "experts.w13_weight: expected [4, 32, 8]"},
      {"text.intermediate_size=9", IJ_E_FORMAT, "experts.w2_weight: expected [4, 8, 9]|shared_w2_weight: expected [2, 8, 9]"},
      {"text.moe_intermediate_size=-8", IJ_E_FORMAT, "moe_intermediate_size: expected an integer|found -8"},
  };
  RUN_CASES(cases, false);
}

#define TYPES(a, b, c, d, e, f) "text.layer_types=[\"" a "\",\"" b "\",\"" c "\",\"" d "\",\"" e "\",\"" f "\"]\n"
#define S "hybrid_sliding"
#define G "hybrid"

static void layer_kinds(void) {
  usual_tensors();
  static const config_case cases[] = {
      {TYPES(S, S, S, S, S, G) "text.local_layer_ids", IJ_OK, "kinds=sssssg"},
      {TYPES(S, S, S, S, S, G), IJ_OK, "kinds=sssssg"},
      {"text.local_layer_ids", IJ_OK, "kinds=sssssg"},
      {"text.local_layer_ids=null", IJ_OK, "kinds=sssssg"},
      {"text.local_layer_ids=[4,3,2,1,0,0]", IJ_OK, "kinds=sssssg"},
      /* two lists that disagree: the tensors decide, for either of them */
      {TYPES(S, S, S, S, S, S), IJ_OK, "kinds=sssssg"},
      {TYPES(S, S, S, S, S, G) "text.local_layer_ids=[0,1]", IJ_OK, "kinds=sssssg"},
      {TYPES(S, S, S, S, G, G) "text.local_layer_ids=[0,1,2]", IJ_E_FORMAT, "layer_types and local_layer_ids contradict|fit neither"},
      /* one list that the tensors contradict */
      {"text.local_layer_ids=[]", IJ_E_FORMAT, "layers.0.attn.wk_dv.weight|rel_logits_proj.proj"},
      {"text.local_layer_ids=[0,1,2,3]", IJ_E_FORMAT,
       "layers.4.attn.rel_logits_proj.proj: expected [2, 6] (d_rel, rel_extent), found [2, 4]"},
      {TYPES(S, S, S, S, S, S) "text.local_layer_ids", IJ_E_FORMAT,
       "layers.5.attn.rel_logits_proj.proj: expected [2, 4]|sliding_window_size"},
      /* lists of the wrong length or content */
      {"text.layer_types=[\"" S "\"]\ntext.local_layer_ids", IJ_OK, "kinds=sssssg"},
      {"text.layer_types=[\"" G "\"]\ntext.local_layer_ids", IJ_E_FORMAT,
       "layer_types has 1 entries for 6 layers|entry 0 contradicts the default"},
      {"text.layer_types=[\"" G "\"]", IJ_E_FORMAT, "layer_types has 1 entries for 6 layers|contradicts local_layer_ids"},
      {"text.layer_types=[]", IJ_OK, "kinds=sssssg"},
      {"text.layer_types=[\"" S "\",\"" S "\",\"" S "\",\"" S "\",\"" S "\",\"" G "\",\"" G "\"]", IJ_OK, "kinds=sssssg"},
      {"text.layer_types=[\"full_attention\"]", IJ_E_FORMAT,
       "layer_types[0]: expected \"hybrid_sliding\" or \"hybrid\", found \"full_attention\""},
      {"text.layer_types=[\"" S "\",3]", IJ_E_FORMAT, "layer_types[1]|found 3"},
      {"text.layer_types=\"" S "\"", IJ_E_FORMAT, "layer_types: expected a list, found \"" S "\""},
      {"text.local_layer_ids=5", IJ_E_FORMAT, "local_layer_ids: expected a list, found 5"},
      {"text.local_layer_ids=[0,6]", IJ_E_FORMAT, "local_layer_ids: expected layers from 0 to 5, found 6"},
      {"text.local_layer_ids=[-1]", IJ_E_FORMAT, "local_layer_ids|found -1"},
      {"text.local_layer_ids=[1.5]", IJ_E_FORMAT, "local_layer_ids|found 1.5"},
      {"text.local_layer_ids=[9223372036854775807]", IJ_E_FORMAT, "local_layer_ids|found 9223372036854775807"},
  };
  RUN_CASES(cases, false);
}

static void all_global_and_no_slide(void) {
  cw_dims s = cw_usual();
  memset(s.sliding, 0, sizeof s.sliding);
  write_tensors(&s);
  static const config_case cases[] = {
      {"text.local_layer_ids=[]", IJ_OK, "kinds=gggggg|win=0"},
      {"text.local_layer_ids=[]\ntext.sliding_window_size\ntext.swa_num_key_value_heads", IJ_OK, "kinds=gggggg|s=2/1/4/0 win=0"},
      {"text.local_layer_ids", IJ_E_FORMAT, "layers.0.attn.rel_logits_proj.proj"},
  };
  RUN_CASES(cases, false);
}

static void kinds_that_shapes_cannot_tell(void) {
  cw_dims s = cw_usual();
  s.extent = s.window;
  s.n_kv = s.swa_kv;
  write_tensors(&s);
  static const config_case cases[] = {
      {"text.rel_extent=4\ntext.num_key_value_heads=2\n" TYPES(S, S, S, S, S, S), IJ_E_FORMAT, "contradict each other at layer 5|fit both"},
      {"text.rel_extent=4\ntext.num_key_value_heads=2\n", IJ_OK, "kinds=sssssg"},
  };
  RUN_CASES(cases, false);
}

static void dense_and_sparse(void) {
  usual_tensors();
  static const config_case cases[] = {
      {"text.mlp_layer_types=[\"dense\",\"dense\",\"sparse\",\"sparse\",\"sparse\",\"sparse\"]\ntext.dense_mlp_idx", IJ_OK, "mlp=ddmmmm"},
      {"text.mlp_layer_types=[\"dense\"]", IJ_OK, "mlp=ddmmmm"},
      {"text.mlp_layer_types=[\"dense\"]\ntext.dense_mlp_idx", IJ_OK, "mlp=ddmmmm"},
      {"text.mlp_layer_types=[\"sparse\"]", IJ_E_FORMAT,
       "mlp_layer_types makes layer 0 sparse, but the checkpoint holds model.llm.layers.0.mlp.w13_dn.weight"},
      {"text.dense_mlp_idx=3", IJ_E_FORMAT, "dense_mlp_idx makes layer 2 dense, but the checkpoint holds model.llm.layers.2.mlp.experts.w13_weight"},
      {"text.dense_mlp_idx=0", IJ_E_FORMAT, "dense_mlp_idx makes layer 0 sparse|layer 1 sparse"},
      {"text.dense_mlp_idx=-1", IJ_E_FORMAT, "dense_mlp_idx: expected an integer from 0"},
      {"text.mlp_layer_types=[\"moe\"]", IJ_E_FORMAT, "mlp_layer_types[0]: expected \"dense\" or \"sparse\", found \"moe\""},
      {"text.mlp_layer_types={}", IJ_E_FORMAT, "mlp_layer_types: expected a list, found an object"},
  };
  RUN_CASES(cases, false);
}

static void refused_settings(void) {
  usual_tensors();
  static const config_case cases[] = {
      {"text.gate_activation=\"softmax\"", IJ_E_UNSUPPORTED,
       "text_config.gate_activation: only \"sigmoid\" is supported, found \"softmax\""},
      {"text.gate_activation=1", IJ_E_UNSUPPORTED, "gate_activation"},
      {"text.hidden_act=\"gelu\"", IJ_E_UNSUPPORTED, "hidden_act: only \"silu\""},
      {"text.hidden_act=\"silu\"", IJ_OK, "L=6"},
      {"text.norm_after_topk=false", IJ_E_UNSUPPORTED, "norm_after_topk: only true"},
      {"text.shared_expert_sink=false", IJ_E_UNSUPPORTED, "shared_expert_sink: only true"},
      {"text.use_gate_bias=false", IJ_E_UNSUPPORTED, "use_gate_bias: only true"},
      {"text.use_global_scale=false", IJ_E_UNSUPPORTED, "use_global_scale: only true"},
      {"text.use_sconv=false", IJ_E_UNSUPPORTED, "use_sconv: only true"},
      {"text.use_embed_norm=false", IJ_E_UNSUPPORTED, "use_embed_norm: only true"},
      {"text.q_bias=true", IJ_E_UNSUPPORTED, "q_bias: only false"},
      {"text.o_bias=true", IJ_E_UNSUPPORTED, "o_bias: only false"},
      {"text.q_bias=false\ntext.o_bias=null", IJ_OK, "L=6"},
      {"text.final_logit_softcapping=30.0", IJ_E_UNSUPPORTED, "final_logit_softcapping: only null or 0 is supported, found 30"},
      {"text.final_logit_softcapping=0", IJ_OK, "L=6"},
      {"text.final_logit_softcapping=null", IJ_OK, "L=6"},
      {"text.final_logit_softcapping=\"x\"", IJ_E_FORMAT, "final_logit_softcapping: expected null or 0"},
      {"text.tie_word_embeddings=true", IJ_E_UNSUPPORTED, "tie_word_embeddings is true, but the checkpoint holds model.llm.unembed.weight"},
      {"tie_word_embeddings=true\ntext.tie_word_embeddings", IJ_E_UNSUPPORTED, "tie_word_embeddings"},
      {"tie_word_embeddings=true", IJ_E_FORMAT, "tie_word_embeddings is true, but text_config.tie_word_embeddings is false"},
      {"text.use_sconv=1", IJ_E_FORMAT, "use_sconv: expected true or false, found 1"},
      {"text.n_shared_experts=0", IJ_E_UNSUPPORTED, "n_shared_experts: at least 1"},
      {"vision.vision_encoder_type=\"vit\"", IJ_E_UNSUPPORTED, "vision_config.vision_encoder_type: expected \"hmlp\", found \"vit\""},
      {"vision.vision_encoder_type=\"hmlp\"", IJ_OK, "L=6"},
      {"audio.audio_mode=\"wave\"", IJ_E_UNSUPPORTED, "audio_config.audio_mode: expected \"dmel\", found \"wave\""},
      {"use_sconv=false", IJ_E_UNSUPPORTED, "use_sconv"},
      {"text.use_sconv=false\ntext.q_bias=true\naudio.audio_mode=\"wave\"", IJ_E_UNSUPPORTED, "use_sconv|q_bias|audio_mode"},
      {"text.num_experts_per_tok=5", IJ_E_FORMAT, "num_experts_per_tok is 5, but n_routed_experts is 4"},
      {"text.num_key_value_heads=2\ntext.num_attention_heads=3\ntext.swa_num_attention_heads=3", IJ_E_FORMAT,
       "num_attention_heads is 3, which num_key_value_heads = 2 does not divide|"
       "swa_num_attention_heads is 3, which swa_num_key_value_heads"},
      {"text.swa_head_dim=8", IJ_E_FORMAT, "swa_num_attention_heads * swa_head_dim"},
      {"text.swa_num_attention_heads=4", IJ_E_FORMAT, "swa_num_attention_heads * swa_head_dim"},
  };
  RUN_CASES(cases, false);
}

static void shapes_contradict(void) {
  usual_tensors();
  static const config_case cases[] = {
      {"text.vocab_size=30\nvocab_size=30", IJ_E_FORMAT,
       "embed.weight: expected [30, 8] (vocab_size, hidden_size), found [20, 8]|unembed.weight: expected [30, 8]"},
      {"text.hidden_size=9", IJ_E_FORMAT, "embed.weight: expected [20, 9]|embed_norm.weight: expected [9] (hidden_size), found [8]|and "},
      {"text.head_dim=2\ntext.swa_head_dim=2", IJ_E_FORMAT, "q_norm.weight: expected [2] (swa_head_dim), found [4]"},
      {"text.num_key_value_heads=2", IJ_E_FORMAT,
       "layers.5.attn.wk_dv.weight: expected [8, 8] (num_key_value_heads * head_dim, hidden_size), found [4, 8]"},
      {"text.d_rel=3", IJ_E_FORMAT, "wr_du.weight: expected [6, 8]|rel_logits_proj.proj: expected [3, 4] (d_rel, sliding_window_size)"},
      {"text.rel_extent=7", IJ_E_FORMAT, "layers.5.attn.rel_logits_proj.proj: expected [2, 7] (d_rel, rel_extent), found [2, 6]"},
      {"text.sliding_window_size=5", IJ_E_FORMAT, "layers.0.attn.rel_logits_proj.proj: expected [2, 5]"},
      {"text.sconv_kernel_size=3", IJ_E_FORMAT, "k_sconv.weight: expected [8, 3]|found [8, 1, 4]"},
      {"text.n_routed_experts=3", IJ_E_FORMAT,
       "gate.weight: expected [5, 8] (n_routed_experts + n_shared_experts, hidden_size), found [6, 8]|gate.bias: expected [3]"},
      {"text.n_shared_experts=1", IJ_E_FORMAT, "shared_w13_weight: expected [1, 16, 8] (n_shared_experts"},
      {"text.num_hidden_layers=5\ntext.local_layer_ids=[0,1,2,3,4]\ntext.rel_extent=9", IJ_OK, "L=5"},
      {"text.unpadded_vocab_size=21", IJ_E_FORMAT, "unpadded_vocab_size is 21, more than vocab_size = 20"},
      {"text.vocab_size=30\nvocab_size=30\ntext.use_sconv=false", IJ_E_FORMAT, "use_sconv|embed.weight: expected [30, 8]"},
  };
  RUN_CASES(cases, false);
}

static void hostile_numbers(void) {
  usual_tensors();
  static const config_case cases[] = {
      {"text.num_hidden_layers=1025", IJ_E_FORMAT, "num_hidden_layers: expected an integer from 1 to 1024, found 1025"},
      {"text.num_hidden_layers=0", IJ_E_FORMAT, "num_hidden_layers|found 0"},
      {"text.num_hidden_layers=-1", IJ_E_FORMAT, "num_hidden_layers|found -1"},
      {"text.num_hidden_layers=6.0", IJ_E_FORMAT, "num_hidden_layers|found 6"},
      {"text.num_hidden_layers=9223372036854775807", IJ_E_FORMAT, "num_hidden_layers|found 9223372036854775807"},
      {"text.num_hidden_layers=123456789012345678901234567890", IJ_E_FORMAT, "num_hidden_layers"},
      {"text.hidden_size=4611686018427387904", IJ_E_FORMAT, "hidden_size"},
      {"text.hidden_size=true", IJ_E_FORMAT, "hidden_size|found true"},
      {"text.hidden_size=[8]", IJ_E_FORMAT, "hidden_size|found an array"},
      {"text.head_dim=4294967300", IJ_E_FORMAT, "head_dim|found 4294967300"},
      {"text.d_rel=257", IJ_E_FORMAT, "d_rel"},
      {"text.rel_extent=2000000000", IJ_E_FORMAT, "rel_extent"},
      {"text.sconv_kernel_size=9", IJ_E_FORMAT, "sconv_kernel_size: expected an integer from 1 to 8, found 9"},
      {"text.n_routed_experts=70000", IJ_E_FORMAT, "n_routed_experts"},
      {"text.n_shared_experts=-2", IJ_E_FORMAT, "n_shared_experts"},
      {"text.rms_norm_eps=0", IJ_E_FORMAT, "rms_norm_eps: expected a number from 1e-30 to 1, found 0"},
      {"text.rms_norm_eps=-1e-6", IJ_E_FORMAT, "rms_norm_eps"},
      {"text.rms_norm_eps=\"1e-6\"", IJ_E_FORMAT, "rms_norm_eps: expected a number|found \"1e-6\""},
      {"text.route_scale=0", IJ_E_FORMAT, "route_scale"},
      {"text.route_scale=1e300", IJ_E_FORMAT, "route_scale"},
      {"text.route_scale=8", IJ_OK, "scale=8"},
      {"text.logits_mup_width_multiplier=0.0", IJ_E_FORMAT, "logits_mup_width_multiplier"},
      {"text.log_scaling_n_floor=-5", IJ_E_FORMAT, "log_scaling_n_floor"},
      {"text.log_scaling_n_floor=0", IJ_OK, "floor=0"},
      {"text.log_scaling_alpha=-0.1", IJ_E_FORMAT, "log_scaling_alpha"},
      {"mtp.num_nextn_predict_layers=65", IJ_E_FORMAT, "mtp_config.num_nextn_predict_layers"},
      {"mtp.num_nextn_predict_layers=\"1\"", IJ_E_FORMAT, "mtp_config.num_nextn_predict_layers"},
      {"image_token_id=20", IJ_E_FORMAT, "image_token_id: expected an integer from 0 to 19, found 20"},
  };
  RUN_CASES(cases, false);
}

static void end_tokens(void) {
  usual_tensors();
  static const config_case cases[] = {
      {"eos_token_id=[3,5,3]", IJ_OK, "eos=[3,5]"},
      {"eos_token_id=[]", IJ_OK, "eos=[]"},
      {"eos_token_id=null", IJ_OK, "eos=[]"},
      {"eos_token_id=null\ntext.eos_token_id=4", IJ_OK, "eos=[4]"},
      {"eos_token_id\ntext.eos_token_id=[4,6]", IJ_OK, "eos=[4,6]"},
      {"eos_token_id=7\ntext.eos_token_id=4", IJ_OK, "eos=[7]"},
      {"eos_token_id=20", IJ_E_FORMAT, "eos_token_id: expected token ids from 0 to 19, found 20"},
      {"eos_token_id=[1,-1]", IJ_E_FORMAT, "eos_token_id|found -1"},
      {"eos_token_id=[[1]]", IJ_E_FORMAT, "eos_token_id|found an array"},
      {"eos_token_id=\"stop\"", IJ_E_FORMAT, "eos_token_id|found \"stop\""},
      {"eos_token_id=[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15]", IJ_OK, "eos=[0,1,"},
      {"eos_token_id=[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]", IJ_E_FORMAT, "at most 16 ids, found 17"},
  };
  RUN_CASES(cases, false);
}

static void malformed_files(void) {
  usual_tensors();
  static const struct {
    const char *text, *want;
  } cases[] = {
      {"[]", "expected an object, found an array"},
      {"3", "expected an object, found an integer"},
      {"{\"model_type\":\"inkling\",\"text_config\":7}", "text_config: expected an object, found an integer"},
      {"{\"model_type\":\"inkling\",\"text_config\":{},\"audio_config\":[],\"mtp_config\":1}",
       "audio_config: expected an object|mtp_config"},
      {"{\"model_type\":\"inkling\"}", "hidden_size is missing|num_hidden_layers is missing"},
  };
  for (size_t i = 0; i < IJ_COUNT_OF(cases); i++) {
    static ij_config c;
    ij_err err;
    cw_write_text(folder, "config.json", cases[i].text);
    CHECK_INT(read_folder(&c, &err), IJ_E_FORMAT);
    has_all(cases[i].text, err.message, cases[i].want);
  }
}

static void fingerprints(void) {
  usual_tensors();
  static const char *const same[] = {"", "eos_token_id=3", "text.model_max_length=7", "image_token_id=3", "text.rms_norm_eps=0.00001"};
  static const char *const other[] = {"text.rms_norm_eps=1e-6", "text.route_scale=7", "text.num_experts_per_tok=3",
                                      "text.log_scaling_n_floor=5", "text.log_scaling_alpha=0.5",
                                      "text.logits_mup_width_multiplier=8", "text.unpadded_vocab_size=17"};
  static ij_config c;
  ij_err err;
  uint64_t first = 0;
  for (size_t i = 0; i < IJ_COUNT_OF(same); i++) {
    cw_write_config(folder, same[i], false);
    CHECK_OK(read_folder(&c, &err), err);
    if (i == 0) first = c.fingerprint;
    CHECK_INT(c.fingerprint, first);
  }
  CHECK(first != 0);
  for (size_t i = 0; i < IJ_COUNT_OF(other); i++) {
    cw_write_config(folder, other[i], false);
    CHECK_OK(read_folder(&c, &err), err);
    CHECK(c.fingerprint != first);
  }
}

static void tied_without_unembed(void) {
  static cw_model m;
  cw_dims s = cw_usual();
  cw_build(&m, &s, IJ_DTYPE_BF16);
  cw_remove(&m, "model.llm.unembed.weight");
  cw_write_tensors(&m, folder);
  cw_free(&m);
  static const config_case cases[] = {{"text.tie_word_embeddings=true", IJ_OK, "tied=1"}, {"", IJ_OK, "tied=0"}};
  RUN_CASES(cases, false);
}

static void only_dense_layers(void) {
  cw_dims s = cw_usual();
  memset(s.is_dense, 1, sizeof s.is_dense);
  write_tensors(&s);
  static const config_case cases[] = {
      {"text.dense_mlp_idx=6\ntext.n_routed_experts\ntext.num_experts_per_tok\ntext.n_shared_experts\ntext.route_scale", IJ_OK,
       "mlp=dddddd|E=0 k=0 SH=0"},
  };
  RUN_CASES(cases, false);
}

int main(void) {
  int64_t blocks = ij__alloc_blocks();
  cw_make_folder(folder, sizeof folder);
  RUN(every_field);
  RUN(flat_files);
  RUN(what_it_is);
  RUN(absent_keys);
  RUN(other_spellings);
  RUN(widths);
  RUN(layer_kinds);
  RUN(all_global_and_no_slide);
  RUN(kinds_that_shapes_cannot_tell);
  RUN(dense_and_sparse);
  RUN(refused_settings);
  RUN(shapes_contradict);
  RUN(hostile_numbers);
  RUN(end_tokens);
  RUN(malformed_files);
  RUN(fingerprints);
  RUN(tied_without_unembed);
  RUN(only_dense_layers);
  cw_remove_folder(folder);
  CHECK_INT(ij__alloc_blocks(), blocks);
  return test_report();
}
