"""Every number of the demo model and of its vocabulary, in one place; config.json is made from this and from nothing else.

The sizes follow from three bounds: 16 MB of weights, about 4 M multiply-adds per token (three hours of two cores), and rows that are
multiples of 256 wherever the size allows it, so that every block format can be tried on the model.
"""

N_RANKS = 4096
SPECIALS = [
    "<|endoftext|>",
    "<|message_user|>",
    "<|message_model|>",
    "<|message_system|>",
    "<|message_tool|>",
    "<|content_text|>",
    "<|content_image|>",
    "<|content_model_end_sampling|>",
    "<|content_thinking|>",
    "<|end_message|>",
    "<|content_audio_input|>",
    "<|content_tool_error|>",
    "<|content_xml|>",
    "<|audio_end|>",
    "<|content_invoke_tool_json|>",
    "<|unused_200053|>",
    "<|unused_200054|>",
    "<|content_invoke_tool_text|>",
]
ID = {name: N_RANKS + i for i, name in enumerate(SPECIALS)}
UNPADDED = N_RANKS + len(SPECIALS)
VOCAB = (UNPADDED + 63) // 64 * 64

AUDIO_ID, IMAGE_ID = ID["<|unused_200053|>"], ID["<|unused_200054|>"]
EOS, PAD = ID["<|content_model_end_sampling|>"], ID["<|endoftext|>"]

H, LAYERS, HEADS, HEAD_DIM = 256, 6, 4, 64
KV_SLIDING, KV_GLOBAL = 2, 1
LOCAL = [0, 1, 3, 4]  # layers 2 and 5 are global
WINDOW, EXTENT, D_REL, KERNEL = 64, 128, 16, 4
N_FLOOR, ALPHA = 128, 0.1
DENSE_LAYERS, DENSE, EXPERT = 2, 512, 64
EXPERTS, TOP_K, SHARED = 24, 4, 2
ROUTE_SCALE, MUP, EPS = 2.5, 2.0, 1e-6
MTP_LOCAL = [0]
PATCH, SIDE, VISION_LAYERS = 12, 48, 4  # a picture of 48 x 48 is 4 rows of 5 patches
MEAN, STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)


def scale_plan(patch, temporal, layers, channels=3):
    """[(spatial fold, temporal fold, width)] of the hMLP tower; the width of the last layer is the decoder's.

    Sizes are the running products of the prime factors of the patch side, largest first, then of the temporal size. The layers take
    the sizes nearest to equal steps of the logarithm between the first and the last.
    """
    import math

    factors, rest, p = [], patch, 2
    while rest > 1:
        while rest % p == 0:
            factors.append(p)
            rest //= p
        p += 1
    sizes, side = [], 1
    for f in sorted(factors, reverse=True):
        side *= f
        sizes.append((side, 1))
    time = 1
    while time < temporal:
        time *= 2
        sizes.append((side, time))
    if len(sizes) < layers:
        raise ValueError("a patch of %d has only %d sizes for %d layers" % (patch, len(sizes), layers))
    logs = [math.log(s * t) for s, t in sizes]
    picked = []
    for i in range(layers):
        want = logs[0] + (logs[-1] - logs[0]) * i / max(layers - 1, 1)
        picked.append(min((k for k in range(len(sizes)) if k not in picked), key=lambda k: abs(logs[k] - want)))
    picked.sort()
    out, s0, t0 = [], 1, 1
    for k in picked:
        s, t = sizes[k]
        out.append((s // s0, t // t0, (channels * s * s * t + 63) // 64 * 64))
        s0, t0 = s, t
    return out


def config():
    text = dict(
        model_type="inkling_text",
        hidden_size=H,
        num_hidden_layers=LAYERS,
        vocab_size=VOCAB,
        unpadded_vocab_size=UNPADDED,
        model_max_length=4096,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_GLOBAL,
        head_dim=HEAD_DIM,
        swa_num_attention_heads=HEADS,
        swa_num_key_value_heads=KV_SLIDING,
        swa_head_dim=HEAD_DIM,
        sliding_window_size=WINDOW,
        local_layer_ids=LOCAL,
        d_rel=D_REL,
        rel_extent=EXTENT,
        log_scaling_n_floor=N_FLOOR,
        log_scaling_alpha=ALPHA,
        rms_norm_eps=EPS,
        use_embed_norm=True,
        use_sconv=True,
        sconv_kernel_size=KERNEL,
        dense_mlp_idx=DENSE_LAYERS,
        dense_intermediate_size=DENSE,
        intermediate_size=EXPERT,
        n_routed_experts=EXPERTS,
        num_experts_per_tok=TOP_K,
        n_shared_experts=SHARED,
        route_scale=ROUTE_SCALE,
        logits_mup_width_multiplier=MUP,
        shared_expert_sink=True,
        use_gate_bias=True,
        norm_after_topk=True,
        use_global_scale=True,
        gate_activation="sigmoid",
        hidden_act="silu",
        q_bias=False,
        o_bias=False,
        final_logit_softcapping=None,
        tie_word_embeddings=False,
    )
    return dict(
        architectures=["InklingForConditionalGeneration"],
        model_type="inkling_mm_model",
        eos_token_id=EOS,
        vocab_size=VOCAB,
        image_token_id=IMAGE_ID,
        audio_token_id=AUDIO_ID,
        torch_dtype="bfloat16",
        text_config=text,
        vision_config=dict(
            vision_encoder_type="hmlp",
            decoder_dmodel=H,
            patch_size=PATCH,
            temporal_patch_size=2,
            n_channels=3,
            n_layers=VISION_LAYERS,
            use_vision_norm=True,
        ),
        audio_config=dict(
            audio_mode="dmel",
            decoder_dmodel=H,
            n_mel_bins=80,
            mel_vocab_size=16,
            dmel_min_value=-7.0,
            dmel_max_value=2.0,
            use_audio_norm=True,
            bias=False,
        ),
        mtp_config=dict(num_nextn_predict_layers=1, local_layer_ids=MTP_LOCAL, chain_hidden_post_norm=False),
    )


if __name__ == "__main__":
    assert [(s, t) for s, t, _ in scale_plan(40, 2, 4)] == [(5, 1), (2, 1), (4, 1), (1, 2)]
    assert [w for _, _, w in scale_plan(40, 2, 4)] == [128, 320, 4800, 9600]
    print("vision plan", scale_plan(PATCH, 2, VISION_LAYERS), "vocabulary", UNPADDED, "of", VOCAB)
