/* synth_config.c: what a synthetic checkpoint says about itself: config.json in the native spelling, or the keys of a GGUF file. */
#include <string.h>

#include "tools/synth_int.h"

static void text_config(ij_buf *b, const ij_synth_preset *p) {
  ij__buf_printf(b,
                 "{\n \"architectures\": [\"InklingForConditionalGeneration\"],\n \"model_type\": \"inkling_mm_model\",\n"
                 " \"eos_token_id\": %d,\n \"vocab_size\": %d,\n \"torch_dtype\": \"bfloat16\",\n \"text_config\": {\n"
                 "  \"model_type\": \"inkling_text\",\n  \"hidden_size\": %d,\n  \"num_hidden_layers\": %d,\n  \"vocab_size\": %d,\n"
                 "  \"unpadded_vocab_size\": %d,\n  \"model_max_length\": %d,\n  \"rms_norm_eps\": 1e-06,\n",
                 p->eos, p->vocab, p->hidden, p->n_layer, p->vocab, p->unpadded_vocab, p->max_context);
  ij__buf_printf(b,
                 "  \"num_attention_heads\": %d,\n  \"num_key_value_heads\": %d,\n  \"head_dim\": %d,\n  \"swa_num_attention_heads\": %d,\n"
                 "  \"swa_num_key_value_heads\": %d,\n  \"swa_head_dim\": %d,\n  \"sliding_window_size\": %d,\n  \"d_rel\": %d,\n"
                 "  \"rel_extent\": %d,\n  \"log_scaling_n_floor\": %d,\n  \"log_scaling_alpha\": 0.1,\n",
                 p->n_head, p->n_kv_head, p->head_dim, p->n_head, p->n_kv_head_sliding, p->head_dim, p->window, p->d_rel, p->rel_extent,
                 p->n_floor);
  ij__buf_printf(b,
                 "  \"intermediate_size\": %d,\n  \"dense_intermediate_size\": %d,\n  \"dense_mlp_idx\": %d,\n  \"n_routed_experts\": %d,\n"
                 "  \"num_experts_per_tok\": %d,\n  \"n_shared_experts\": %d,\n  \"route_scale\": 8.0,\n"
                 "  \"logits_mup_width_multiplier\": %d.0,\n  \"sconv_kernel_size\": 4,\n",
                 p->expert_width, p->dense_width, p->n_dense, p->n_expert, p->n_expert_used, p->n_shared, p->mup);
  ij__buf_puts(b,
               "  \"gate_activation\": \"sigmoid\",\n  \"use_embed_norm\": true,\n  \"use_sconv\": true,\n  \"use_gate_bias\": true,\n"
               "  \"use_global_scale\": true,\n  \"norm_after_topk\": true,\n  \"shared_expert_sink\": true,\n"
               "  \"tie_word_embeddings\": false,\n  \"local_layer_ids\": [");
  bool first = true;
  for (int i = 0; i < p->n_layer; i++) {
    if (!ij__synth_sliding(i)) continue;
    ij__buf_printf(b, "%s%d", first ? "" : ", ", i);
    first = false;
  }
  ij__buf_puts(b, "]\n }");
}

/* The dictionary of MLX builds. */
static void quantization(ij_buf *b, const ij_synth_model *m) {
  const int bits = (int)ij__dtype_block_bytes(m->dtype) * 8 / (int)ij__dtype_block_len(m->dtype);
  const bool affine = m->dtype >= IJ_DTYPE_AFFINE2 && m->dtype <= IJ_DTYPE_AFFINE8;
  ij__buf_printf(b, ",\n \"quantization\": {\n  \"group_size\": %d,\n  \"bits\": %d,\n  \"mode\": \"%s\",\n  \"recipe\": \"uniform\"\n }",
                 m->group, bits, affine ? "affine" : ij__dtype_name(m->dtype));
}

static void tower_configs(ij_buf *b, const ij_synth_preset *p) {
  ij__buf_printf(b,
                 ",\n \"vision_config\": {\n  \"vision_encoder_type\": \"hmlp\",\n  \"decoder_dmodel\": %d,\n  \"patch_size\": 40,\n"
                 "  \"temporal_patch_size\": 2,\n  \"n_channels\": 3,\n  \"n_layers\": 4,\n  \"use_vision_norm\": true\n },\n"
                 " \"audio_config\": {\n  \"audio_mode\": \"dmel\",\n  \"decoder_dmodel\": %d,\n  \"n_mel_bins\": 80,\n"
                 "  \"mel_vocab_size\": 16,\n  \"dmel_min_value\": -7.0,\n  \"dmel_max_value\": 2.0,\n  \"use_audio_norm\": true\n }",
                 p->hidden, p->hidden);
}

void ij__synth_config(ij_buf *b, const ij_synth_plan *plan) {
  text_config(b, &plan->p);
  if (plan->p.towers) tower_configs(b, &plan->p);
  if (plan->model.layout == IJ_SYNTH_MLX) quantization(b, &plan->model);
  if (plan->model.zipf) ij__buf_printf(b, ",\n \"synthetic_zipf\": %s", ij__synth_zipf_name(plan->model.zipf)); /* tells folders apart */
  ij__buf_puts(b, "\n}\n");
}

void ij__synth_release_note(ij_buf *b, const ij_synth_plan *plan) {
  ij__buf_printf(b,
                 "{\n \"quantization\": {\n  \"quant_algo\": \"NVFP4\",\n  \"group_size\": 16,\n  \"exclude_modules\": [\n"
                 "   \"model.llm.layers.%d.mlp.experts\"\n  ]\n }\n}\n",
                 plan->p.n_dense);
}

/* ---------------------------------------------------------------------------------------------------------------- GGUF */

static void layer_arrays(ij_gguf_keys *k, const ij_synth_preset *p) {
  uint8_t sliding[64];
  int32_t kv[64];
  for (int i = 0; i < p->n_layer; i++) {
    sliding[i] = ij__synth_sliding(i);
    kv[i] = ij__synth_sliding(i) ? p->n_kv_head_sliding : p->n_kv_head;
  }
  ij__gguf_add_array(k, "inkling.attention.head_count_kv", IJ_GGUF_I32, kv, (uint64_t)p->n_layer);
  ij__gguf_add_array(k, "inkling.attention.sliding_window_pattern", IJ_GGUF_BOOL, sliding, (uint64_t)p->n_layer);
}

void ij__synth_keys(ij_gguf_keys *k, const ij_synth_plan *plan) {
  const ij_synth_preset *p = &plan->p;
  const struct {
    const char *key;
    int value;
  } counts[] = {
      {"inkling.block_count", p->n_layer},
      {"inkling.context_length", p->max_context},
      {"inkling.embedding_length", p->hidden},
      {"inkling.feed_forward_length", p->dense_width},
      {"inkling.attention.head_count", p->n_head},
      {"inkling.attention.key_length", p->head_dim},
      {"inkling.attention.value_length", p->head_dim},
      {"inkling.attention.sliding_window", p->window},
      {"inkling.expert_count", p->n_expert},
      {"inkling.expert_used_count", p->n_expert_used},
      {"inkling.expert_shared_count", p->n_shared},
      {"inkling.expert_feed_forward_length", p->expert_width},
      {"inkling.expert_gating_func", 2},
      {"inkling.vocab_size", p->vocab},
      {"inkling.unpadded_vocab_size", p->unpadded_vocab},
      {"inkling.d_rel", p->d_rel},
      {"inkling.rel_extent", p->rel_extent},
      {"inkling.rel_extent_swa", p->window},
      {"inkling.shortconv_kernel", 4},
      {"inkling.dense_block_count", p->n_dense},
      {"inkling.log_scaling_n_floor", p->n_floor},
      {"tokenizer.ggml.eos_token_id", p->eos},
  };
  ij__gguf_add_string(k, "general.architecture", "inkling");
  ij__gguf_add_string(k, "general.name", "synthetic");
  if (plan->model.zipf) ij__gguf_add_string(k, "general.description", ij__synth_zipf_name(plan->model.zipf));
  for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) ij__gguf_add_u32(k, counts[i].key, (uint32_t)counts[i].value);
  layer_arrays(k, p);
  ij__gguf_add_f32(k, "inkling.attention.layer_norm_rms_epsilon", 1e-6f);
  ij__gguf_add_f32(k, "inkling.expert_weights_scale", 8);
  ij__gguf_add_f32(k, "inkling.logit_scale_denom", (float)p->mup);
  ij__gguf_add_f32(k, "inkling.log_scaling_alpha", 0.1f);
}
