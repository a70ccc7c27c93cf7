/** Dockerfile and deploy/kubernetes.yaml speak of the same port, user, token and probe. */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { sandboxdOptions } from '../../packages/server/lib/options.js'

const root = path.dirname(path.dirname(__dirname))
const dockerfile = readFileSync(path.join(root, 'Dockerfile'), 'utf8')
const bun = path.join(root, 'node_modules/.bin/bun')

function readYaml(file: string) {
  const program = `console.log(JSON.stringify(Bun.YAML.parse(await Bun.file('${file}').text())))`
  return JSON.parse(execFileSync(bun, ['-e', program], { cwd: root, encoding: 'utf8' }))
}

const [service, policy, pod] = readYaml('deploy/kubernetes.yaml')
const template = readYaml('deploy/agent-sandbox/template.yaml')
const pool = readYaml('deploy/agent-sandbox/warm-pool.yaml')
const [admission] = readYaml('deploy/agent-sandbox/network-policy.yaml')
const compose = readYaml('deploy/compose.yaml')
const [container] = pod.spec.containers

/** What stands behind a word of the Dockerfile, the last time that it is there. */
function last(instruction: string): string {
  const lines = dockerfile.split('\n').filter((line) => line.startsWith(`${instruction} `))
  return lines.at(-1)?.slice(instruction.length + 1) ?? ''
}

const command: string[] = JSON.parse(last('CMD'))
const option = (name: string) => command[command.indexOf(name) + 1]

describe('the image', () => {
  it('runs the server as PID 1, without a shell, as a user without privileges', () => {
    expect(command.slice(0, 2)).toEqual(['nacre', 'serve'])
    expect(last('USER')).toBe('10001:10001')
    expect(last('FROM')).toBe('node:22-bookworm-slim')
  })

  it('exposes the port that it listens on, and asks for its health there', () => {
    expect(last('EXPOSE')).toBe(option('--port'))
    expect(dockerfile).toContain(`http://127.0.0.1:${option('--port')}/healthz`)
  })

  it('is made of the packages alone, on the system that they are installed on', () => {
    const from = dockerfile.split('\n').filter((line) => line.startsWith('FROM '))
    expect(new Set(from.map((line) => line.split(' ')[1]))).toEqual(new Set([last('FROM')]))
    expect(dockerfile.match(/^COPY (?!--from).*$/gm)).toEqual(['COPY target/packages/*.tgz /packages/'])
    expect(readFileSync(path.join(root, '.dockerignore'), 'utf8')).toMatch(
      /^\*\*\n!target\/packages\/\*\.tgz\n$/m,
    )
  })
})

describe('the compose file', () => {
  it('runs the image as the pod does', () => {
    const { sandbox } = compose.services
    expect(sandbox).toMatchObject({ read_only: true, cap_drop: ['ALL'], init: false })
    expect(sandbox.security_opt).toEqual(['no-new-privileges:true'])
    expect(sandbox.ports).toEqual([`127.0.0.1:${option('--port')}:${option('--port')}`])
    const [token] = sandbox.secrets
    expect(`/run/secrets/${token.target}`).toBe(option('--token-file'))
    const mounts = sandbox.tmpfs.map((mount: string) => mount.split(':')[0])
    expect(mounts).toEqual(expect.arrayContaining(['/tmp', last('WORKDIR')]))
  })
})

describe('the pod', () => {
  it('is found by its id, at the port of the image', () => {
    expect([pod.spec.hostname, pod.spec.subdomain]).toEqual([pod.metadata.name, service.metadata.name])
    expect(pod.metadata.labels).toMatchObject(service.spec.selector)
    expect(pod.metadata.labels).toMatchObject(policy.spec.podSelector.matchLabels)
    expect(service.spec.clusterIP).toBe('None')
    const ports = [
      container.ports[0].containerPort,
      service.spec.ports[0].port,
      policy.spec.ingress[0].ports[0].port,
    ]
    expect(new Set(ports)).toEqual(new Set([Number(option('--port'))]))
  })

  it('asks for health where the server answers', () => {
    const probes = [container.startupProbe, container.readinessProbe, container.livenessProbe]
    expect(probes.map(({ httpGet }) => httpGet)).toEqual(Array(3).fill({ path: '/healthz', port: 'http' }))
  })

  it('has the user of the image and no privileges', () => {
    const { runAsNonRoot, runAsUser, runAsGroup } = pod.spec.securityContext
    expect([runAsNonRoot, `${runAsUser}:${runAsGroup}`]).toEqual([true, last('USER')])
    expect(container.securityContext).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    })
    expect(pod.spec.automountServiceAccountToken).toBe(false)
    expect(container.resources.limits).toEqual(container.resources.requests)
  })

  it('has its token where the server reads it, and room where it is written', () => {
    const mounts = container.volumeMounts.map(({ mountPath }: { mountPath: string }) => mountPath)
    expect(mounts).toContain(path.dirname(option('--token-file') ?? ''))
    expect(mounts).toEqual(expect.arrayContaining(['/tmp', last('WORKDIR')]))
    const volumes = pod.spec.volumes.map(({ name }: { name: string }) => name)
    expect(container.volumeMounts.map(({ name }: { name: string }) => name)).toEqual(volumes)
  })
})

describe('the template of agent-sandbox', () => {
  const { spec } = template.spec.podTemplate
  const [sandbox] = spec.containers
  const ports = sandbox.ports.map(({ containerPort }: { containerPort: number }) => containerPort)

  it('runs the image as the pod does, with sandboxd on its own ports', () => {
    // The ports of sandboxd must be reachable from outside of the pod.
    expect(sandbox.command).toEqual([...command, '--sandboxd', '--sandboxd-host', '0.0.0.0'])
    expect(ports).toEqual([
      Number(option('--port')),
      sandboxdOptions.restPort.default,
      sandboxdOptions.grpcPort.default,
    ])
    expect(dockerfile).toContain(`EXPOSE ${ports.slice(1).join(' ')}\n`)
    expect(sandbox.image).toBe(container.image)
    for (const key of ['securityContext', 'resources', 'volumeMounts'])
      expect(sandbox[key]).toEqual(container[key])
    for (const key of [
      'securityContext',
      'restartPolicy',
      'terminationGracePeriodSeconds',
      'automountServiceAccountToken',
    ])
      expect(spec[key]).toEqual(pod.spec[key])
    expect(sandbox.volumeMounts.map(({ mountPath }: { mountPath: string }) => mountPath)).toContain(
      sandboxdOptions.root.default,
    )
  })

  it('is ready when sandboxd is, and lets only its clients reach it', () => {
    const probes = [sandbox.startupProbe, sandbox.readinessProbe]
    expect(probes.map(({ httpGet }) => httpGet)).toEqual(
      Array(2).fill({ path: '/v1/health', port: 'sandboxd-rest' }),
    )
    expect(template.spec.podTemplate.metadata.labels).toMatchObject(admission.spec.podSelector.matchLabels)
    const [clients, ...others] = admission.spec.ingress
    expect(others).toEqual([])
    expect(clients.ports.map(({ port }: { port: number }) => port)).toEqual(ports)
    const labels = [{ app: 'sandbox-router' }, { 'nacre.dev/sandbox-client': 'true' }]
    expect(clients.from).toEqual(labels.map((matchLabels) => ({ podSelector: { matchLabels } })))
    expect(admission.spec.egress).toEqual(policy.spec.egress)
  })

  it('is what the pool keeps warm', () => {
    expect(pool.spec.sandboxTemplateRef.name).toBe(template.metadata.name)
  })

  it('has sandboxd in the image', () => {
    for (const name of ['server', 'sandboxd'])
      expect(dockerfile).toContain(` /packages/nacre-${name}-[0-9]*.tgz`)
  })
})
