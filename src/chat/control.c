/* control.c: the control tokens of the chat format, by name.
 *
 * One has a second spelling: an early revision of the family's vocabulary had no name yet for the kind of the tool declaration. The
 * family's number is the last resort, and only where the vocabulary says itself that it is a control token.
 */
#include "chat/chat_int.h"
#include "core/status.h"

static const struct control {
  const char *name, *other;
  int32_t family_id; /* -1: not certain enough to be used without a name */
} controls[IJ_CHAT_N_CONTROLS] = {
    [IJ_CHAT_USER] = {"<|message_user|>", NULL, 200000},
    [IJ_CHAT_MODEL] = {"<|message_model|>", NULL, 200001},
    [IJ_CHAT_SYSTEM] = {"<|message_system|>", NULL, 200002},
    [IJ_CHAT_TOOL] = {"<|message_tool|>", NULL, 200003},
    [IJ_CHAT_TEXT] = {"<|content_text|>", NULL, 200004},
    [IJ_CHAT_THINKING] = {"<|content_thinking|>", NULL, 200008},
    [IJ_CHAT_XML] = {"<|content_xml|>", "<|unused_200024|>", 200024},
    [IJ_CHAT_CALL] = {"<|content_invoke_tool_json|>", NULL, 200049},
    [IJ_CHAT_IMAGE] = {"<|content_image|>", NULL, 200005},
    [IJ_CHAT_AUDIO] = {"<|content_audio_input|>", NULL, 200020},
    [IJ_CHAT_TOOL_ERROR] = {"<|content_tool_error|>", NULL, -1},
    [IJ_CHAT_CALL_TEXT] = {"<|content_invoke_tool_text|>", NULL, -1},
    [IJ_CHAT_END] = {"<|end_message|>", NULL, 200010},
    [IJ_CHAT_END_TURN] = {"<|content_model_end_sampling|>", NULL, 200006},
    [IJ_CHAT_END_OF_TEXT] = {"<|endoftext|>", NULL, 199999},
    [IJ_CHAT_AUDIO_END] = {"<|audio_end|>", NULL, 200043},
    [IJ_CHAT_IMAGE_ROW] = {"<|unused_200054|>", NULL, 200054},
    [IJ_CHAT_AUDIO_ROW] = {"<|unused_200053|>", NULL, 200053},
};

const char *ij__chat_control_name(ij_chat_control c) { return controls[c].name; }

int32_t ij__chat_find(const ij_tokenizer *tokenizer, ij_chat_control c) {
  int32_t id = ij_find_special(tokenizer, controls[c].name);
  if (id < 0 && controls[c].other) id = ij_find_special(tokenizer, controls[c].other);
  int32_t family = controls[c].family_id;
  if (id < 0 && family >= 0 && family < ij_tokenizer_size(tokenizer) && ij_is_special(tokenizer, family)) id = family;
  return id;
}

ij_status ij__chat_fail_control(ij_chat_control c, const char *needed_for, ij_err *err) {
  return ij__fail(err, IJ_E_ARGUMENT, "tokenizer", "the vocabulary has no token %s, which %s; use the tokenizer of an Inkling model",
                  controls[c].name, needed_for);
}
