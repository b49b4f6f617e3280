// Renders conversations with the template in @huggingface/jinja, as chat_pipe.c does: JSON lines in, JSON strings or null out.
//   node tests/chat/render_hf.mjs TEMPLATE < REQUESTS
import fs from "node:fs";
import { Template } from "../../.cache/templates/package/dist/index.js";

const template = new Template(fs.readFileSync(process.argv[2], "utf8"));
const out = [];
for (const line of fs.readFileSync(0, "utf8").split("\n")) {
  if (!line) continue;
  try {
    out.push(JSON.stringify(template.render(JSON.parse(line))));
  } catch (error) {
    if (error instanceof TypeError || error instanceof SyntaxError) throw error; // the template's own complaints are plain errors
    out.push("null");
  }
}
fs.writeFileSync(1, out.join("\n") + "\n");
