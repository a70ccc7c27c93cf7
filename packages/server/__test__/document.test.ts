/** The OpenAPI document says what requests are checked against, and docs/http.md has the codes of the server. */
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { createServer } from '@nacre/server'
import { Validator } from '@seriousme/openapi-schema-validator'
import { Sandbox } from 'nacre'
import { endpoints, HTTP_STATUSES } from 'nacre/internal/server'
import { describe, expect, it } from 'vitest'
import { withServer } from '../../../__test__/helpers/http.js'
import { STATUSES } from '../lib/failure.js'

interface Operation {
  responses: Record<string, { description: string }>
  security?: object[]
}

const { paths } = createServer(new Sandbox()).document() as {
  paths: Record<string, Record<string, Operation>>
}

it('docs/http.md has every code of the server alone, with its status', () => {
  const page = readFileSync(path.resolve(__dirname, '../../../docs/http.md'), 'utf8')
  const listed = Array.from(page.matchAll(/^\| `([A-Z_]+)` \| (\d+) \|/gm), ([, code = '', status]) => [
    code,
    Number(status),
  ])
  const own = Object.entries(STATUSES).filter(([code]) => !(code in HTTP_STATUSES))
  expect(own.length).toBeGreaterThan(10)
  expect(Object.fromEntries(listed)).toEqual(Object.fromEntries(own))
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
      expect(responses[503]?.description, route).toContain('SHUTTING_DOWN')
      if (method !== 'get') expect(responses[422]?.description, route).toContain('CALL_MISMATCH')
    }
  expect(paths['/v1/exec']?.post?.responses[422]?.description).toBe(
    'an error: CALL_MISMATCH, COMMAND_FAILED, OUTPUT_LIMIT',
  )
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
