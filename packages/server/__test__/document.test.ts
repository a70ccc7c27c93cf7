/** docs/http.md and the pages of its routes say what the OpenAPI document says, which is made from what requests are checked against. */
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { createServer } from '@nacre/server'
import { Validator } from '@seriousme/openapi-schema-validator'
import { Sandbox } from 'nacre'
import { endpoints } from 'nacre/internal/server'
import { describe, expect, it } from 'vitest'
import { withServer } from '../../../__test__/helpers/http.js'
import { STATUSES } from '../lib/failure.js'

const page = ['http', 'http-routes', 'http-files']
  .map((name) => readFileSync(path.resolve(__dirname, `../../../docs/${name}.md`), 'utf8'))
  .join('')

interface Operation {
  summary: string
  parameters?: Array<{ name: string; in: string; required?: boolean }>
  requestBody?: { content: { 'application/json'?: { schema: { properties?: object; required?: string[] } } } }
  responses: { default: { description: string } }
  security?: object[]
}

const { paths } = createServer(new Sandbox()).document() as {
  paths: Record<string, Record<string, Operation>>
}

/** The row of a route in the page: what it takes, what it does, how it can fail. */
function row(
  method: string,
  route: string,
  { summary, parameters = [], requestBody, responses }: Operation,
): string {
  const { properties = {}, required = [] } = requestBody?.content['application/json']?.schema ?? {}
  const query = parameters.filter((parameter) => parameter.in === 'query').map(({ name }) => `?${name}`)
  const body = Object.keys(properties).map((name) => (required.includes(name) ? `**${name}**` : name))
  const takes = [...query, ...body].join(' ')
  const codes = responses.default.description.replace(/^an error: VALIDATION_FAILED(, )?/, '')
  return `| \`${method.toUpperCase()} ${route}\` | ${takes} | ${summary} | ${codes.replaceAll(',', '')} |`
}

describe('docs/http.md', () => {
  it('has every route as it is, and no other', () => {
    const rows = Object.entries(paths).flatMap(([route, methods]) =>
      Object.entries(methods).map(([method, operation]) => row(method, route, operation)),
    )
    expect(rows.length).toBeGreaterThan(45)
    const documented = page.split('\n').filter((line) => /^\| `(GET|POST|PUT|DELETE) /.test(line))
    expect(documented.sort()).toEqual(rows.sort())
  })

  it('has every code with its status', () => {
    for (const [code, status] of Object.entries(STATUSES))
      expect(page).toContain(`| \`${code}\` | ${status} |`)
    const listed = Array.from(page.matchAll(/^\| `([A-Z_]+)` \| (\d+) \|/gm), ([, code = '', status]) => [
      code,
      Number(status),
    ])
    expect(Object.fromEntries(listed)).toEqual(STATUSES)
  })
})

it('only the health check needs no token', () =>
  withServer(
    async ({ url }) => {
      for (const [route, methods] of Object.entries(paths))
        for (const [method, { security }] of Object.entries(methods)) {
          const address = url + route.replaceAll(/\{\w+\}/g, '1')
          const { status } = await fetch(address, { method: method.toUpperCase() })
          expect(status === 401, `${method} ${route}`).toBe(security === undefined)
        }
    },
    { token: 'a-token-for-tests' },
  ))

it('every endpoint of the client is a route', () => {
  for (const { method, path } of Object.values(endpoints))
    expect(paths[path]?.[method.toLowerCase()], `${method} ${path}`).toBeDefined()
})

it('every route has the status of a busy or ending server, and every numbered call that of a mismatch', () => {
  for (const [route, methods] of Object.entries(paths))
    for (const [method, { responses }] of Object.entries(methods)) {
      const statuses = responses as Record<string, { description: string }>
      expect(statuses[503]?.description, route).toContain('SHUTTING_DOWN')
      if (method !== 'get') expect(statuses[422]?.description, route).toContain('CALL_MISMATCH')
    }
  const exec = paths['/v1/exec']?.post?.responses as unknown as Record<string, { description: string }>
  expect(exec[422]?.description).toBe('an error: CALL_MISMATCH, COMMAND_FAILED, OUTPUT_LIMIT')
})

describe('/openapi.json', () => {
  it('is valid OpenAPI', () =>
    withServer(async ({ get }) => {
      const { body } = await get('/openapi.json')
      const validator = new Validator()
      const { valid, errors } = await validator.validate(body)
      expect(errors ?? []).toEqual([])
      expect([valid, validator.version]).toEqual([true, '3.1'])
    }))

  it('is the document', () =>
    withServer(async ({ get }) => {
      const { body } = await get('/openapi.json')
      expect(body.openapi).toMatch(/^3\./)
      expect(Object.keys(body.paths)).toEqual(Object.keys(paths))
    }))
})
