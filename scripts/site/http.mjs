/** The reference of the HTTP API: every route with its parameters and schemas, from the OpenAPI document. */
import { Sandbox } from '../../dist/index.js'
import { createServer } from '../../packages/server/dist/index.js'
import { splitPages } from './groups.mjs'

const HEAD = `# HTTP schemas

Look up the fields of a request or a reply. The same information is in the OpenAPI document, which a running server
returns at \`/openapi.json\`. [The HTTP API](../http.md) explains events, errors and tokens, with examples.
`

const GROUPS = [
  { page: 'containers', title: 'HTTP: routes of containers', pattern: / `\/api\// },
  { page: 'commands', title: 'HTTP: commands', pattern: /`\/v1\/(exec|runs)/ },
  { page: 'files', title: 'HTTP: files', pattern: /files|uploads/ },
  { page: 'starts', title: 'HTTP: starts of processes', pattern: /POST `\/v1\/(processes|services)`/ },
  {
    page: 'waits',
    title: 'HTTP: waits for processes',
    pattern: /`\/v1\/processes\/.*\/(wait|health|starts|terminal)/,
  },
  { page: 'processes', title: 'HTTP: processes', pattern: /`\/v1\/processes/ },
  { page: 'workspace', title: 'HTTP: workspaces', pattern: /workspace|checkpoint|undo/ },
  { page: 'jobs', title: 'HTTP: jobs', pattern: /`\/v1\/jobs/ },
  {
    page: 'sessions',
    title: 'HTTP: sessions, ports and questions',
    pattern: /`\/v1\/(sessions|env|port|questions)/,
  },
  { page: 'server', title: 'HTTP: the server', pattern: / / },
  { page: 'types', title: 'HTTP: types', pattern: /^/ },
]

export function httpPages() {
  const { paths, components } = createServer(new Sandbox()).document()
  const routes = Object.entries(paths).flatMap(([route, methods]) =>
    Object.entries(methods).map(([method, operation]) => {
      const title = `${method.toUpperCase()} \`${route}\``
      return { title, text: section(title, operation) }
    }),
  )
  const types = Object.entries(components.schemas)
    .filter(([, { properties }]) => properties !== undefined)
    .map(([title, schema]) => ({ title, text: [`## ${title}`, '', ...rowsOf(schema)].join('\n') }))
  return splitPages('http', HEAD, GROUPS, [...routes, ...types])
}

function section(title, { summary, parameters = [], requestBody, responses }) {
  const reply = Object.entries(responses).find(([status]) => status !== 'default')
  return [
    `## ${title}`,
    '',
    escapeCell(summary),
    '',
    ...(parameters.length === 0 ? [] : ['**Parameters**', '', ...table(parameters.map(parameterRow))]),
    ...fields('Request', contentOf(requestBody)),
    ...fields(`Reply ${reply?.[0] ?? ''}`, contentOf(reply?.[1])),
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
function fields(title, content) {
  if (content === undefined) return []
  const { type, schema } = content
  if (type === 'application/json' && schema.properties !== undefined)
    return [`**${title}**`, '', ...rowsOf(schema)]
  const name = nameOf(schema)
  const link = name === undefined ? typeOf(schema) : `[${name}](types.md#${name.toLowerCase()})`
  return [`**${title}:** ${type === 'application/json' ? link : `\`${type}\``}`, '']
}

/** The table of the fields of an object. */
function rowsOf({ properties, required = [] }) {
  return table(
    Object.entries(properties).map(([name, property]) => [
      `\`${name}\``,
      typeOf(property),
      required.includes(name) ? 'yes' : '',
      property.description ?? '',
    ]),
  )
}

function table(rows) {
  const lines = rows.map((cells) => `| ${cells.map(escapeCell).join(' | ')} |`)
  return ['| name | type | required | meaning |', '| --- | --- | --- | --- |', ...lines, '']
}

function errors(response) {
  const codes = response?.description?.match(/\b[A-Z][A-Z_]{3,}\b/g) ?? []
  return codes.length === 0 ? [] : [`**Errors:** ${codes.map((code) => `\`${code}\``).join(', ')}`, '']
}

/** The name of a schema that has one. */
function nameOf({ $ref }) {
  return $ref?.split('/').pop()
}

/** A short name for a type: `string`, `string[]`, `Process`, `a or b`. */
function typeOf(schema) {
  if (schema === undefined) return 'any'
  if (schema.$ref !== undefined) return nameOf(schema)
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
