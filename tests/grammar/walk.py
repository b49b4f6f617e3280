"""What random tokens under a schema spell must be valid under that schema, says the package jsonschema.

    python3 tests/grammar/walk.py GRAMMAR_TOOL VOCABULARY FOLDER_WITH_JSONSCHEMA [WALKS [SEED]]
"""
import datetime
import json
import pathlib
import subprocess
import sys

SCHEMAS = [
    {}, True,
    {"type": "object"},
    {"type": "array"},
    {"type": "string"}, {"type": "number"}, {"type": "integer"}, {"type": ["boolean", "null", "integer"]},
    {"type": "string", "nullable": True},
    {"enum": ["red", "green", 3, None, 2.5, True, {"a": [1, "x"]}, []]},
    {"const": "line\nbreak \"quoted\" \u0001 é 日"},
    {"type": "string", "minLength": 3, "maxLength": 7},
    {"type": "string", "maxLength": 300},
    {"type": "string", "minLength": 200},
    {"type": "string", "pattern": "^[a-z0-9_]{2,10}$"},
    {"type": "string", "pattern": "b+c"},
    {"type": "string", "pattern": "^(foo|bar)-\\d{3}$|^x"},
    {"type": "string", "pattern": "^[^\\s\"\\\\]+$", "minLength": 2, "maxLength": 12},
    {"type": "string", "pattern": "é|日", "maxLength": 6},
    {"allOf": [{"type": "string", "pattern": "^a"}, {"pattern": "z$"}, {"maxLength": 9}]},
] + [{"type": "string", "format": f} for f in ("date", "time", "date-time", "email", "ipv4", "ipv6", "uuid", "hostname", "duration", "uri")] + [
    {"type": "string", "format": "email", "maxLength": 30},
    {"type": "integer", "minimum": 0, "maximum": 255},
    {"type": "integer", "minimum": -17, "exclusiveMaximum": 1300},
    {"type": "integer", "exclusiveMinimum": 99, "maximum": 100},
    {"type": "integer", "maximum": -5}, {"type": "integer", "minimum": 1000},
    {"type": "integer", "multipleOf": 7}, {"type": "integer", "multipleOf": 12, "minimum": -100, "maximum": 1000},
    {"type": "integer", "minimum": 9007199254740991, "maximum": 9007199254740999},
    {"type": "integer", "format": "int32"},
    {"type": "number", "minimum": 0, "maximum": 1}, {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    {"type": "number", "minimum": -2.5, "maximum": 12.25}, {"type": "number", "minimum": 0.001}, {"type": "number", "exclusiveMaximum": -0.5},
    {"type": "number", "multipleOf": 5, "minimum": -20}, {"type": "number", "minimum": 1e-5, "maximum": 2e-5},
    {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 4},
    {"type": "array", "items": {"type": "boolean"}, "minItems": 3},
    {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False, "minItems": 2},
    {"type": "array", "prefixItems": [{"type": "null"}], "items": {"type": "boolean"}},
    {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}, "c": {}}, "required": ["b"]},
    {"type": "object", "properties": {"a": {"type": "integer"}, "ab": {"type": "null"}, "é": {"type": "boolean"}}, "additionalProperties": {"type": "string"}},
    {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "integer"}}},
    {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"], "additionalProperties": False},
    {"properties": {"quote\"d \\ key\n": {"type": "null"}}, "required": ["quote\"d \\ key\n"]},
    {"anyOf": [{"type": "string", "maxLength": 4}, {"type": "object", "properties": {"k": {"const": 1}}, "required": ["k"]}, {"type": "null"}]},
    {"anyOf": [{"type": "object", "properties": {"kind": {"const": "a"}, "v": {"type": "integer"}}, "required": ["kind", "v"], "additionalProperties": False},
               {"type": "object", "properties": {"kind": {"const": "ab"}, "v": {"type": "string"}}, "required": ["kind", "v"], "additionalProperties": False}]},
    {"oneOf": [{"type": "object", "properties": {"kind": {"enum": ["a", "b"]}}, "required": ["kind"]},
               {"type": "object", "properties": {"kind": {"const": "c"}, "n": {"type": "integer"}}, "required": ["kind", "n"]}]},
    {"oneOf": [{"type": "integer"}, {"type": "string", "maxLength": 3}, {"type": "null"}]},
    {"allOf": [{"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]},
               {"properties": {"a": {"type": "integer", "minimum": 3}, "b": {"type": "string"}}}]},
    {"$defs": {"n": {"type": "object", "properties": {"v": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}},
                     "required": ["v", "next"], "additionalProperties": False}}, "$ref": "#/$defs/n"},
    {"$defs": {"t": {"type": "array", "items": {"$ref": "#/$defs/t"}}}, "type": "object", "properties": {"t": {"$ref": "#/$defs/t"}}, "required": ["t"]},
    {"type": "object", "properties": {"steps": {"type": "array", "items": {"type": "object", "properties": {
        "explanation": {"type": "string"}, "output": {"type": "string"}}, "required": ["explanation", "output"], "additionalProperties": False}},
        "final_answer": {"type": "string"}}, "required": ["steps", "final_answer"], "additionalProperties": False},
    {"type": ["object", "array"], "properties": {"a": {"type": "null"}}, "items": {"type": "integer"}, "maxItems": 2},
    {"$ref": "#/$defs/a~1b%20c", "$defs": {"a/b c": {"type": "integer", "maximum": 9, "minimum": 5}}, "description": "beside a reference"},
]

# Formats that jsonschema checks only with further packages.
CLOCKS = {"time": lambda t: datetime.time.fromisoformat(t), "date-time": lambda t: datetime.datetime.fromisoformat(t)}


def main():
    tool, vocabulary, packages = sys.argv[1:4]
    walks, seed = (int(x) for x in (sys.argv[4:6] + ["16", "1"][len(sys.argv) - 4:]))
    if not pathlib.Path(vocabulary).is_file() or not pathlib.Path(packages, "jsonschema").is_dir():
        print("the vocabulary (scripts/fetch-vocab.sh) or jsonschema (tests/grammar/fetch-oracle.sh) is missing")
        sys.exit(77)
    sys.path.insert(0, packages)
    import jsonschema
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    lines = "".join("json\t" + json.dumps(s).encode().hex() + "\n" for s in SCHEMAS)
    done = subprocess.run([tool, vocabulary, "walk", str(walks), str(seed)], input=lines, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"grammar_tool: status {done.returncode}: {done.stderr}")
    answers = done.stdout.splitlines()
    assert len(answers) == len(SCHEMAS), (len(answers), len(SCHEMAS))
    n_texts = n_wrong = 0
    different = set()
    for schema, answer in zip(SCHEMAS, answers):
        if answer.startswith("error"):
            print(f"{json.dumps(schema)}: {answer}")
            n_wrong += 1
            continue
        validator = jsonschema.Draft202012Validator(schema, format_checker=checker)
        for word in answer.split():
            n_texts += 1
            text = None
            try:
                text = bytes.fromhex(word).decode("utf-8")
                different.add(text)
                value = json.loads(text)
                if isinstance(schema, dict) and schema.get("format") in CLOCKS:
                    CLOCKS[schema["format"]](value)
                if not (value is None and isinstance(schema, dict) and schema.get("nullable")):
                    validator.validate(value)
            except Exception as e:  # whatever is wrong with it, it is a finding
                n_wrong += 1
                print(f"{json.dumps(schema)}: {text if text is not None else word}: {type(e).__name__}: {str(e).splitlines()[0]}")
    print(f"{len(SCHEMAS)} schemas, {n_texts} texts, {len(different)} different, {n_wrong} wrong")
    sys.exit(1 if n_wrong or n_texts < len(SCHEMAS) * walks * 0.9 else 0)


main()
