// Answers beside docs/openapi.json, by the part of JSON Schema that it uses for shapes. The page's
// tests are worth what the mock is: an answer of it that lacks a part, or has one of another kind,
// says nothing about the page before a real server.
import { readFileSync } from 'node:fs';

const contract = JSON.parse(
  readFileSync(new URL('../../docs/openapi.json', import.meta.url), 'utf8'),
);
const component = ({ $ref }) => {
  const [, , kind, name] = $ref.split('/');
  return contract.components[kind][name];
};

// The schema that the document gives for an answer; null where it says nothing of it.
export function schemaOf(method, path, status) {
  const matches = (template) =>
    new RegExp(`^${template.replace(/\{\w+\}/g, '[^/]+')}$`).test(path);
  // Of two that match, the one without a parameter is meant.
  const template = Object.keys(contract.paths)
    .filter(matches)
    .sort((a, b) => a.split('{').length - b.split('{').length)[0];
  const said = contract.paths[template]?.[method]?.responses[status];
  if (!said) return null;
  const { content } = said.$ref ? component(said) : said;
  const schema = content?.['application/json']?.schema;
  return schema ? { template, schema } : null;
}

const kindsOf = (schema) => [schema.type ?? []].flat();

// The least that the schema allows: not known where that can be said.
function least(schema) {
  if (schema.$ref) return least(component(schema));
  const kinds = kindsOf(schema);
  if (kinds.includes('null')) return null;
  if (schema.enum) return schema.enum[0];
  if (kinds.includes('array')) return [];
  if (kinds.includes('object')) return filled({}, schema);
  if (kinds.includes('boolean')) return false;
  return kinds.includes('string') ? '' : 0;
}

// `value` with every part that the schema requires and it does not name.
export function filled(value, schema) {
  if (schema.$ref) return filled(value, component(schema));
  if (Array.isArray(value)) return value.map((item) => filled(item, schema.items ?? {}));
  if (value === null || typeof value !== 'object') return value;
  const known = schema.properties ?? {};
  const whole = Object.fromEntries(
    Object.entries(value).map(([name, item]) => [name, filled(item, known[name] ?? {})]),
  );
  for (const name of schema.required ?? []) if (!(name in whole)) whole[name] = least(known[name]);
  return whole;
}

const kinds = (value) => {
  if (value === null) return ['null'];
  if (Array.isArray(value)) return ['array'];
  return Number.isInteger(value) ? ['integer', 'number'] : [typeof value];
};

// How `value` differs from the schema, each way once.
export function unlike(value, schema, at, found = new Set()) {
  if (schema.$ref) return unlike(value, component(schema), at, found);
  const allowed = kindsOf(schema);
  if (allowed.length && !kinds(value).some((kind) => allowed.includes(kind)))
    found.add(`${at} is ${kinds(value)[0]}, not ${allowed.join(' or ')}`);
  if (schema.enum && !schema.enum.includes(value))
    found.add(`${at} is ${JSON.stringify(value)}, not one of ${schema.enum.join(', ')}`);
  if (Array.isArray(value)) {
    for (const item of value) unlike(item, schema.items ?? {}, `${at}[]`, found);
  } else if (value !== null && typeof value === 'object') {
    const known = schema.properties ?? {};
    const more = schema.additionalProperties ?? {};
    for (const name of schema.required ?? [])
      if (!(name in value)) found.add(`${at} lacks "${name}"`);
    for (const [name, item] of Object.entries(value)) {
      if (known[name]) unlike(item, known[name], `${at}.${name}`, found);
      else if (more === false) found.add(`${at} has "${name}"`);
      else unlike(item, more, `${at}.*`, found);
    }
  }
  return found;
}
