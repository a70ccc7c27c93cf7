/**
 * Addresses for pods. As root, each is a network namespace with a link to a bridge, which can be cut. Otherwise, each is an
 * address of the loopback interface.
 */
import { spawnSync } from 'node:child_process'

let networks = 0

export interface PodNetwork {
  ip: string
  /** The first words of a pod's command. */
  enter: string[]
  /** Cuts the link, or restores it. False if there is none. */
  link(isUp: boolean): boolean
  remove(): void
}

export class Network {
  readonly #id: string
  readonly #subnet: string
  readonly hasNamespaces: boolean
  #next = 1
  readonly #free: number[] = []
  /** Removes the remaining namespaces. */
  readonly #left = new Set<() => void>()

  /** `namespaces`: false always uses addresses of the loopback interface. */
  constructor(namespaces = true) {
    const number = (process.pid * 8 + networks++) % 65_000
    this.#id = number.toString(36)
    this.#subnet = `10.${100 + ((number >> 8) % 100)}.${number & 255}`
    this.hasNamespaces = namespaces && process.getuid?.() === 0 && this.#open()
    if (!this.hasNamespaces) this.#subnet = `127.${1 + ((number >> 8) % 250)}.${number & 255}`
  }

  /** Takes an address. Returned addresses are reused. */
  pod(): PodNetwork {
    const host = this.#free.shift() ?? ++this.#next
    const ip = `${this.#subnet}.${host}`
    const giveBack = () => this.#free.push(host)
    if (!this.hasNamespaces) return { ip, enter: [], link: () => false, remove: giveBack }
    const name = `nacre-${this.#id}-${host}`
    const [outer, inner] = [`nv${this.#id}${host}`, `nw${this.#id}${host}`]
    ip_(['netns', 'add', name])
    // One per address: neighbours cache it.
    const mac = `02:00:00:00:${(host >> 8).toString(16)}:${(host & 255).toString(16)}`
    ip_(['link', 'add', outer, 'type', 'veth', 'peer', 'name', inner, 'address', mac, 'netns', name])
    ip_(['-n', name, 'addr', 'add', `${ip}/24`, 'dev', inner])
    for (const device of ['lo', inner]) ip_(['-n', name, 'link', 'set', device, 'up'])
    ip_(['link', 'set', outer, 'master', this.#bridge, 'up'])
    const remove = () => {
      if (!this.#left.delete(remove)) return
      spawnSync('ip', ['link', 'del', outer])
      spawnSync('ip', ['netns', 'del', name])
      giveBack()
    }
    this.#left.add(remove)
    return {
      ip,
      enter: ['ip', 'netns', 'exec', name],
      link(isUp) {
        ip_(['link', 'set', outer, isUp ? 'up' : 'down'])
        return true
      },
      remove,
    }
  }

  close(): void {
    for (const remove of [...this.#left]) remove()
    if (this.hasNamespaces) spawnSync('ip', ['link', 'del', this.#bridge])
  }

  get #bridge(): string {
    return `nb${this.#id}`
  }

  #open(): boolean {
    if (spawnSync('ip', ['link', 'add', this.#bridge, 'type', 'bridge']).status !== 0) return false
    const works = [
      ['addr', 'add', `${this.#subnet}.1/24`, 'dev', this.#bridge],
      ['link', 'set', this.#bridge, 'up'],
      ['netns', 'add', `nacre-${this.#id}-probe`],
    ].every((words) => spawnSync('ip', words).status === 0)
    spawnSync('ip', ['netns', 'del', `nacre-${this.#id}-probe`])
    if (!works) spawnSync('ip', ['link', 'del', this.#bridge])
    return works
  }
}

function ip_(words: string[]): void {
  const { status, stderr } = spawnSync('ip', words, { encoding: 'utf8' })
  if (status !== 0) throw new Error(`ip ${words.join(' ')}: ${stderr}`)
}
