"""Holds answers against docs/openapi.json: the words of JSON Schema that it uses, no others."""

import json
import os
import re
import urllib.parse

_DOCUMENT = json.load(open(os.path.join(os.path.dirname(__file__), "../../docs/openapi.json")))
_TYPES = {"object": dict, "array": list, "string": str, "number": (int, float), "integer": int,
          "boolean": bool, "null": type(None)}
_KNOWN = {"type", "properties", "required", "additionalProperties", "enum", "format", "items",
          "oneOf", "$ref", "minimum", "maximum", "description"}


def errors(value, schema, path="$"):
    """What is wrong with `value`, as lines."""
    assert set(schema) <= _KNOWN, f"{path}: words nobody checks: {set(schema) - _KNOWN}"
    if "$ref" in schema:
        named = schema["$ref"].split("/")[-1]
        return errors(value, _DOCUMENT["components"]["schemas"][named], path)
    if "oneOf" in schema:
        found = [errors(value, s, path) for s in schema["oneOf"]]
        return [] if sum(not e for e in found) == 1 else [f"{path}: none or several of oneOf"]
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    fits = [t for t in types if isinstance(value, _TYPES[t])
            and (t == "boolean" or not isinstance(value, bool))]
    if types and not fits:
        return [f"{path}: {value!r:.60} is none of {types}"]
    out = []
    if "enum" in schema and value not in schema["enum"]:
        out.append(f"{path}: {value!r:.60} is none of {schema['enum']}")
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if value < schema.get("minimum", value) or value > schema.get("maximum", value):
            out.append(f"{path}: {value} is out of range")
    if isinstance(value, list) and "items" in schema:
        for k, item in enumerate(value):
            out += errors(item, schema["items"], f"{path}[{k}]")
    if isinstance(value, dict):
        out += [f"{path}.{k} is missing" for k in schema.get("required", []) if k not in value]
        properties, more = schema.get("properties", {}), schema.get("additionalProperties", True)
        for k, item in value.items():
            if k in properties:
                out += errors(item, properties[k], f"{path}.{k}")
            elif more is False:
                out.append(f"{path}.{k} is not in the document")
            elif isinstance(more, dict):
                out += errors(item, more, f"{path}.{k}")
    return out


def schema_of(path):
    """Of the answer 200 of GET `path`; None where the document has no such route or no JSON."""
    path = urllib.parse.unquote(path.split("?")[0])
    # A literal path before one with {name}, which takes the rest; of those the longest.
    for route in sorted(_DOCUMENT["paths"], key=lambda r: ("{" in r, -len(r))):
        pattern = re.sub(r"\\\{\w+\\\}", ".+", re.escape(route))
        if re.fullmatch(pattern, path) and "get" in _DOCUMENT["paths"][route]:
            content = _DOCUMENT["paths"][route]["get"]["responses"]["200"].get("content", {})
            return content.get("application/json", {}).get("schema")
    return None
