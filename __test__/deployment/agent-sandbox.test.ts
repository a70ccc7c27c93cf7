/** deploy/agent-sandbox: the resources fit together, the schemas of their kinds, and what a fleet does. */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { VERSION } from '../../lib/addon/platforms.js'
import { newClaim } from '../../packages/fleet/lib/kubernetes/claim.js'
import { fleetKubernetesOptions } from '../../packages/fleet/lib/options.js'
import { sandboxClaim, sandboxTemplate, sandboxWarmPool } from '../helpers/agent-sandbox.js'

const root = path.dirname(path.dirname(__dirname))
const bun = path.join(root, 'node_modules/.bin/bun')

function read(name: string) {
  const file = `deploy/agent-sandbox/${name}.yaml`
  const program = `console.log(JSON.stringify(Bun.YAML.parse(await Bun.file('${file}').text())))`
  const parsed = JSON.parse(execFileSync(bun, ['-e', program], { cwd: root, encoding: 'utf8' }))
  return Array.isArray(parsed) ? parsed : [parsed]
}

const [template] = read('template')
const [pool] = read('warm-pool')
const [autoscaler] = read('autoscaler')
const router = read('router')
const [, fleetRole] = read('rbac')
const [policy, routerPolicy] = read('network-policy')
const deployment = router.find(({ kind }) => kind === 'Deployment')
const service = router.find(({ kind }) => kind === 'Service')
const { podTemplate } = template.spec
const [container] = podTemplate.spec.containers

describe('the resources of agent-sandbox', () => {
  it('have the fields of their kinds only', () => {
    expect(sandboxTemplate.read(template, 'template')).toEqual(template)
    expect(sandboxWarmPool.read(pool, 'pool')).toEqual(pool)
    const wrong = { ...template, spec: { ...template.spec, replicas: 1 } }
    expect(() => sandboxTemplate.read(wrong, 'template')).toThrow('template.spec has no option "replicas"')
    const incomplete = { ...pool, spec: { replicas: 1 } }
    expect(() => sandboxWarmPool.read(incomplete, 'pool')).toThrow('must have both')
  })

  it('refer to each other', () => {
    expect(pool.spec.sandboxTemplateRef.name).toBe(template.metadata.name)
    expect(autoscaler.spec.scaleTargetRef).toEqual({
      apiVersion: pool.apiVersion,
      kind: pool.kind,
      name: pool.metadata.name,
    })
    expect(service.spec.selector).toEqual(deployment.spec.selector.matchLabels)
    expect(policy.spec.podSelector.matchLabels).toEqual(podTemplate.metadata.labels)
    expect(routerPolicy.spec.podSelector.matchLabels).toEqual(service.spec.selector)
  })

  it('let the router and labelled clients alone reach the ports of a sandbox, and keep it from credentials of the cloud', () => {
    const [ingress] = policy.spec.ingress
    const labels = [service.spec.selector, { 'nacre.dev/sandbox-client': 'true' }]
    expect(ingress.from).toEqual(labels.map((matchLabels) => ({ podSelector: { matchLabels } })))
    const ports = container.ports.map(({ containerPort }: { containerPort: number }) => containerPort)
    expect(ingress.ports.map(({ port }: { port: number }) => port).sort()).toEqual(ports.sort())
    expect(ports).toContain(fleetKubernetesOptions.port.default)
    const [, world] = policy.spec.egress
    expect(world.to[0].ipBlock.except).toContain('169.254.0.0/16')
  })

  it('run the image of this version without privileges, and never a second time', () => {
    expect(container.image).toBe(`nacre:${VERSION}`)
    expect(podTemplate.spec).toMatchObject({ restartPolicy: 'Never', automountServiceAccountToken: false })
    expect(container.securityContext.capabilities.drop).toEqual(['ALL'])
    const words: string[] = container.command
    expect(words.slice(0, 2)).toEqual(['nacre', 'serve'])
    expect(words[words.indexOf('--port') + 1]).toBe(String(fleetKubernetesOptions.port.default))
  })

  it('let a fleet do what it does, and no more', () => {
    const source = readFileSync(path.join(root, 'packages/fleet/lib/kubernetes/api.ts'), 'utf8')
    const verbs = new Set(
      Array.from(source.matchAll(/api\.(\w+?)NamespacedCustomObject/g), ([, verb]) => verb),
    )
    const [claims, sandboxes] = fleetRole.rules
    expect(new Set(claims.verbs)).toEqual(new Set([...verbs, 'watch']))
    expect(sandboxes).toMatchObject({ resources: ['sandboxes'], verbs: ['get'] })
    expect(fleetRole.rules).toHaveLength(2)
  })
})

describe('a claim of a fleet', () => {
  it('has the fields of its kind only', () => {
    const request = { id: 'a', namespace: 'b', warmPool: 'c', labels: { d: 'e' }, ttl: 1500, nonce: 'f' }
    const claim = newClaim(request, Date.UTC(2026, 0, 1))
    expect(sandboxClaim.read(claim, 'claim')).toEqual(claim)
    expect(claim.spec.lifecycle?.shutdownTime).toBe('2026-01-01T00:00:02Z')
    expect(
      sandboxClaim.read(newClaim({ ...request, labels: {} }, 0), 'claim').spec.additionalPodMetadata,
    ).toBeUndefined()
  })
})
