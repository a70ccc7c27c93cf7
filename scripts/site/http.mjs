/** The reference page of the HTTP API: every route with its parameters and schemas, from the OpenAPI document. */
import { Sandbox } from '../../dist/index.js'
import { createServer } from '../../packages/server/dist/index.js'

const HEAD = `# HTTP schemas

Look up the fields of a request or a reply. The same information is in the OpenAPI document, which a running server
returns at \`/openapi.json\`. [The HTTP API](../http.md) explains events, errors and tokens, with examples.
`

export function httpPage() {
  const { paths, components } = createServer(new Sandbox()).document()
  const routes = Object.entries(paths).flatMap(([route, methods]) =>
    Object.entries(methods).map(([method, operation]) =>
      section(method, route, operation, components.schemas ?? {}),
    ),
  )
  return [HEAD, ...routes].join('\n')
}

function section(method, route, { summary, parameters = [], requestBody, responses }, schemas) {
  const reply = Object.entries(responses).find(([status]) => status !== 'default')
  return [
    `## ${method.toUpperCase()} \`${route}\``,
    '',
    escapeCell(summary),
    '',
    ...table('Parameters', parameters.map(parameterRow)),
    ...fields('Request', contentOf(requestBody), schemas),
    ...fields(`Reply ${reply?.[0] ?? ''}`, contentOf(reply?.[1]), schemas),
    ...errors(responses.default),
  ].join('\n')
}

/** The schema of a JSON body, or the type of any other body. */
function contentOf(body) {
  const [[type, { schema }] = []] = [Object.entries(body?.content ?? {})[0] ?? [undefined, {}]]
  return type === undefined ? undefined : { type, schema }
}

function parameterRow({ name, in: place, required, schema, description }) {
  return [
    `\`${name}\``,
    `${typeOf(schema)}, ${place}`,
    required ? 'yes' : '',
    description ?? schema?.description ?? '',
  ]
}

/** A table of the fields of an object, or one line for anything else. */
function fields(title, content, schemas) {
  if (content === undefined) return []
  const { type, schema } = content
  const object = resolve(schema, schemas)
  if (type !== 'application/json' || object?.properties === undefined)
    return [`**${title}:** ${type === 'application/json' ? typeOf(schema) : `\`${type}\``}`, '']
  const rows = Object.entries(object.properties).map(([name, property]) => [
    `\`${name}\``,
    typeOf(property),
    object.required?.includes(name) ? 'yes' : '',
    property.description ?? '',
  ])
  return table(title, rows)
}

function table(title, rows) {
  if (rows.length === 0) return []
  const lines = rows.map((cells) => `| ${cells.map(escapeCell).join(' | ')} |`)
  return [
    `**${title}**`,
    '',
    '| name | type | required | meaning |',
    '| --- | --- | --- | --- |',
    ...lines,
    '',
  ]
}

function errors(response) {
  const codes = response?.description?.match(/\b[A-Z][A-Z_]{3,}\b/g) ?? []
  return codes.length === 0 ? [] : [`**Errors:** ${codes.map((code) => `\`${code}\``).join(', ')}`, '']
}

function resolve(schema, schemas) {
  const name = /^#\/components\/schemas\/(.*)$/.exec(schema?.$ref ?? '')?.[1]
  return name === undefined ? schema : schemas[name]
}

/** A short name for a type: `string`, `string[]`, `Process`, `a or b`. */
function typeOf(schema) {
  if (schema === undefined) return 'any'
  if (schema.$ref !== undefined) return schema.$ref.split('/').pop()
  if (schema.enum !== undefined) return schema.enum.map((value) => `\`${value}\``).join(', ')
  if (schema.const !== undefined) return `\`${schema.const}\``
  const variants = schema.anyOf ?? schema.oneOf
  if (variants !== undefined) return [...new Set(variants.map(typeOf))].join(' or ')
  if (schema.type === 'array') return `list of ${typeOf(schema.items)}`
  return Array.isArray(schema.type) ? schema.type.join(' or ') : (schema.type ?? 'any')
}

function escapeCell(text) {
  return String(text).replaceAll('|', '\\|').replaceAll('<', '&lt;').replaceAll('{{', '&#123;&#123;')
}
