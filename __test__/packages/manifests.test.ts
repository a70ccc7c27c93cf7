/** The files of `deploy/`, checked against the schemas of what reads them. */
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { VERSION } from '../../lib/addon/platforms.js'

const root = path.dirname(path.dirname(__dirname))
const manifest = path.join(root, 'deploy', 'kubernetes.yaml')
const queue = path.join(root, 'deploy', 'queue.yaml')
let validator: string
let directory: string

beforeAll(() => {
  const fetch = path.join(root, 'scripts/packages/fetch-kubernetes-validate.mjs')
  validator = execFileSync(process.execPath, [fetch], { encoding: 'utf8' }).trim()
  directory = mkdtempSync(path.join(os.tmpdir(), 'nacre-manifests-'))
}, 300_000)

afterAll(() => rmSync(directory, { recursive: true, force: true }))

/** What the validator says about a manifest in which a text is replaced. Strict: unknown fields are errors. */
function validate(from = '', to = '', source = manifest): { status: number | null; output: string } {
  const file = path.join(directory, 'manifest.yaml')
  const text = readFileSync(source, 'utf8')
  expect(text).toContain(from)
  writeFileSync(file, text.replace(from, to))
  const { status, stdout, stderr } = spawnSync(validator, ['--strict', file], { encoding: 'utf8' })
  return { status, output: stdout + stderr }
}

describe('the Kubernetes manifest', () => {
  it('is valid by the schemas of the API', () => {
    const { status, output } = validate()
    expect(output).toContain('passed for resource service/sandboxes')
    expect(output).toContain('passed for resource networkpolicy/sandboxes')
    expect(output).toContain('passed for resource pod/sandbox-1')
    expect(status).toBe(0)
  }, 60_000)

  it.each([
    ['an unknown field', 'restartPolicy: Never', 'restartPolice: Never'],
    [
      'a value of the wrong type',
      'automountServiceAccountToken: false',
      'automountServiceAccountToken: never',
    ],
    ['a missing name', '    - name: sandbox\n', '    - tty: false\n'],
  ])(
    'would not be with %s',
    (_, from, to) => {
      expect(validate(from, to).status).not.toBe(0)
    },
    60_000,
  )

  it('runs the image of this version', () => {
    expect(readFileSync(manifest, 'utf8')).toContain(`image: nacre:${VERSION}\n`)
    expect(readFileSync(path.join(root, 'deploy/compose.yaml'), 'utf8')).toContain(
      `image: nacre:${VERSION}\n`,
    )
  })
})

describe('the Kubernetes manifest of queues', () => {
  it('is valid by the schemas of the API', () => {
    const { status, output } = validate('', '', queue)
    for (const name of ['service', 'networkpolicy', 'statefulset'])
      expect(output).toContain(`passed for resource ${name}/nacre-redis`)
    expect(output).toContain('passed for resource statefulset/nacre-worker')
    expect(status).toBe(0)
  }, 60_000)

  it('would not be with an unknown field', () => {
    expect(validate('serviceName: nacre-worker', 'service: nacre-worker', queue).status).not.toBe(0)
  }, 60_000)

  it('is made from the image of this version', () => {
    expect(readFileSync(queue, 'utf8')).toContain(`FROM nacre:${VERSION}\n`)
  })
})

describe('the manifests of agent-sandbox', () => {
  const folder = path.join(root, 'deploy/agent-sandbox')

  it.each([
    ['router', ['serviceaccount', 'role', 'rolebinding', 'deployment', 'service', 'poddisruptionbudget']],
    ['rbac', ['serviceaccount', 'role', 'rolebinding']],
    ['network-policy', ['networkpolicy', 'networkpolicy']],
    ['autoscaler', ['horizontalpodautoscaler']],
  ])(
    'have a valid %s by the schemas of the API',
    (name, kinds) => {
      const file = path.join(folder, `${name}.yaml`)
      const { status, stdout, stderr } = spawnSync(validator, ['--strict', file], { encoding: 'utf8' })
      for (const kind of kinds) expect(stdout + stderr).toContain(`passed for resource ${kind}/`)
      expect(status).toBe(0)
    },
    60_000,
  )

  it('have a template with a valid pod', () => {
    const lines = readFileSync(path.join(folder, 'template.yaml'), 'utf8').split('\n')
    const begin = lines.indexOf('    spec:')
    const spec = lines.slice(begin).map((line) => line.slice(4))
    const file = path.join(directory, 'pod.yaml')
    const head = ['apiVersion: v1', 'kind: Pod', 'metadata:', '  name: sandbox']
    const check = (text: string[]) => {
      writeFileSync(file, [...head, ...text].join('\n'))
      return spawnSync(validator, ['--strict', file], { encoding: 'utf8' }).status
    }
    expect(check(spec)).toBe(0)
    expect(check(spec.map((line) => line.replace('runAsUser: 10001', 'runAsUser: nacre')))).not.toBe(0)
  }, 60_000)
})
