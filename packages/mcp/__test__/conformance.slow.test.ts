/**
 * The official conformance suite of MCP, against a server over HTTP. It sends no token, so a proxy adds it. It is a client of each
 * version of the protocol, and runs on Bun, because it does not run on Node.js 20.
 *
 * Most of its scenarios are for a server of its own, which has tools, prompts and resources with fixed names.
 */
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { createServer, request as send } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { promisify } from 'node:util'
import { beforeAll, describe, expect, it } from 'vitest'
import { bun } from '../../../__test__/helpers/consumer.js'
import { overHttp } from './places.js'

const VERSIONS = ['2025-06-18', '2025-11-25', '2026-07-28']
const SUITE = path.join(
  path.dirname(require.resolve('@modelcontextprotocol/conformance/package.json')),
  'dist/index.js',
)
/** Milliseconds for all scenarios of a version. They take a few seconds. */
const LIMIT = 180_000

/** The scenarios that apply, each with the checks that need a tool, prompts or resources of the suite's own server. */
const APPLICABLE: Record<string, string[]> = {
  'server-initialize': [],
  'server-session-lifecycle': [],
  'server-stateless': [
    'sep-2575-server-rejects-undeclared-capability',
    'sep-2575-missing-capability-http-400',
    'sep-2575-http-server-no-independent-requests-on-stream',
    'sep-2575-server-no-log-without-loglevel',
  ],
  'server-sse-multiple-streams': [],
  'http-header-validation': [],
  'dns-rebinding-protection': [],
  ping: [],
  'tools-list': [],
  caching: [
    'sep-2549-prompts-list-caching-hints',
    'sep-2549-resources-list-caching-hints',
    'sep-2549-resources-templates-list-caching-hints',
  ],
  'input-required-result-unsupported-methods': [],
}

/** The others, by the reason that their failures give. */
const INAPPLICABLE = [
  {
    reason: 'the server has none of the tools of the suite',
    message:
      /[Tt]here is no tool|[Tt]ool '\w+' not found|no tool with x-mcp-header|no initial|InputRequiredResult/,
    scenarios: [
      'elicitation-sep1034-defaults',
      'elicitation-sep1330-enums',
      'http-custom-header-server-validation',
      'input-required-result-basic-elicitation',
      'input-required-result-basic-list-roots',
      'input-required-result-basic-sampling',
      'input-required-result-capability-check',
      'input-required-result-ignore-extra-params',
      'input-required-result-missing-input-response',
      'input-required-result-multi-round',
      'input-required-result-multiple-input-requests',
      'input-required-result-request-state',
      'input-required-result-result-type',
      'input-required-result-tampered-state',
      'input-required-result-validate-input',
      'json-schema-2020-12',
      'server-sse-polling',
      'tools-call-audio',
      'tools-call-elicitation',
      'tools-call-embedded-resource',
      'tools-call-error',
      'tools-call-image',
      'tools-call-mixed-content',
      'tools-call-sampling',
      'tools-call-simple-text',
      'tools-call-with-progress',
    ],
  },
  {
    reason: 'the server offers no prompts, resources, completions and logging',
    message: /Method not found|There is no tool/,
    scenarios: [
      'completion-complete',
      'input-required-result-non-tool-request',
      'logging-set-level',
      'prompts-get-embedded-resource',
      'prompts-get-simple',
      'prompts-get-with-args',
      'prompts-get-with-image',
      'prompts-list',
      'resources-list',
      'resources-read-binary',
      'resources-read-text',
      'resources-subscribe',
      'resources-templates-read',
      'resources-unsubscribe',
      'sep-2164-resource-not-found',
      'tools-call-with-logging',
    ],
  },
]

interface Check {
  id: string
  status: 'SUCCESS' | 'FAILURE' | 'WARNING' | 'SKIPPED' | 'INFO'
  errorMessage?: string
}

/** Adds the token to each request, and changes nothing else. Returns its port, and what closes it. */
async function addToken(target: () => { url: string; token: string }) {
  const proxy = createServer((request, response) => {
    const { url, token } = target()
    const headers = { ...request.headers, authorization: `Bearer ${token}` }
    const options = { method: request.method, path: request.url, headers }
    const forwarded = send(url, options, (reply) => {
      response.writeHead(reply.statusCode ?? 502, reply.headers)
      reply.pipe(response)
    })
    forwarded.on('error', () => response.destroy())
    response.on('close', () => forwarded.destroy())
    request.pipe(forwarded)
  })
  proxy.listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  const close = async () => {
    proxy.closeAllConnections()
    proxy.close()
    await once(proxy, 'close')
  }
  return { port: (proxy.address() as AddressInfo).port, close }
}

/** Runs all scenarios of a version. Returns the checks of each. */
async function runSuite(url: string, version: string, directory: string): Promise<Map<string, Check[]>> {
  const output = path.join(directory, version)
  const args = [SUITE, 'server', '--url', url, '--suite', 'all', '--spec-version', version, '-o', output]
  const options = { cwd: directory, timeout: LIMIT, maxBuffer: 1e8 }
  // It exits with 1, because not all scenarios apply.
  const ended = await promisify(execFile)(bun, args, options).catch((error) => error)
  expect(ended.killed ?? false, ended.stdout).toBe(false)
  const results = new Map<string, Check[]>()
  for (const name of readdirSync(output)) {
    const scenario = /^server-(.+)-\d{4}-\d{2}-\d{2}T/.exec(name)?.[1] ?? name
    results.set(scenario, JSON.parse(readFileSync(path.join(output, name, 'checks.json'), 'utf8')))
  }
  return results
}

/** The checks of each scenario, in all versions. */
const results = new Map<string, Check[]>()

beforeAll(async () => {
  let target = { url: '', token: '' }
  const proxy = await addToken(() => target)
  try {
    const words = ['--allow-origin', `http://127.0.0.1:${proxy.port}`]
    await overHttp(async ({ url, token, directory }) => {
      target = { url, token }
      for (const version of VERSIONS) {
        const found = await runSuite(`http://127.0.0.1:${proxy.port}/mcp`, version, directory)
        for (const [scenario, checks] of found)
          results.set(scenario, [...(results.get(scenario) ?? []), ...checks])
      }
    }, words)
  } finally {
    await proxy.close()
  }
}, VERSIONS.length * LIMIT)

describe('the conformance suite of MCP', () => {
  it('has no scenario that is not listed here', () => {
    const listed = [...Object.keys(APPLICABLE), ...INAPPLICABLE.flatMap(({ scenarios }) => scenarios)]
    expect([...results.keys()].toSorted()).toEqual(listed.toSorted())
  })

  it.each(Object.entries(APPLICABLE))('passes with the scenario %s', (scenario, unsuitable) => {
    const checks = results.get(scenario) ?? []
    const failed = checks.filter(({ status }) => status === 'FAILURE' || status === 'WARNING')
    expect(new Set(failed.map(({ id }) => id))).toEqual(new Set(unsuitable))
    for (const { errorMessage } of failed) expect(errorMessage).toMatch(/^Not testable: |Method not found/)
    expect(checks.filter(({ status }) => status === 'SUCCESS').length).toBeGreaterThan(0)
  })

  it.each(INAPPLICABLE)('fails elsewhere only because $reason', ({ scenarios, message }) => {
    for (const scenario of scenarios)
      for (const { id, status, errorMessage } of results.get(scenario) ?? [])
        if (status === 'FAILURE') expect(errorMessage, `${scenario}: ${id}`).toMatch(message)
  })
})
