/**
 * The claims of fleets, followed by one watch.
 *
 * The watch continues from the last version that it has seen. When the API server does not have that version any more, or
 * has sent what is no event, it begins anew with a list. A dropped watch reconnects with growing pauses.
 */
import { Backoff } from '../../base/backoff.js'
import { type KubernetesApi, statusOf } from './api.js'
import type { Claim } from './claim.js'
import { InvalidEvent } from './watch-stream.js'

/** Receives a claim when it has changed; undefined when it is not there. */
export type Listener = (claim: Claim | undefined) => void

/** Milliseconds after which a watch was no failure, however it has ended. */
const HEALTHY_MS = 1000

export class ClaimWatch {
  readonly #api: KubernetesApi
  readonly #claims = new Map<string, Claim>()
  readonly #listeners = new Map<string, Set<Listener>>()
  readonly #stop = new AbortController()
  readonly #backoff = new Backoff(50, 5000)
  #version: string | undefined
  #running: Promise<void> | undefined

  constructor(api: KubernetesApi) {
    this.#api = api
  }

  /** The claim as it was last seen. */
  find(name: string): Claim | undefined {
    return this.#claims.get(name)
  }

  /** Calls the listener with each change of a claim from now on. Returns the function that ends that. */
  follow(name: string, listener: Listener): () => void {
    this.#running ??= this.#run()
    const listeners = this.#listeners.get(name) ?? new Set()
    this.#listeners.set(name, listeners.add(listener))
    return () => {
      listeners.delete(listener)
      if (listeners.size === 0 && this.#listeners.get(name) === listeners) this.#listeners.delete(name)
    }
  }

  async close(): Promise<void> {
    this.#stop.abort()
    this.#listeners.clear()
    await this.#running
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop
    while (!signal.aborted) {
      const begun = performance.now()
      try {
        this.#version ??= await this.#list()
        await this.#api.watch(this.#version, signal, (type, object) => this.#receive(type, object))
      } catch (error) {
        if (statusOf(error) === 410 || error instanceof InvalidEvent) this.#version = undefined
      }
      if (performance.now() - begun >= HEALTHY_MS) this.#backoff.reset()
      if (!signal.aborted) await this.#backoff.wait(signal)
    }
  }

  async #list(): Promise<string> {
    const { items, metadata } = await this.#api.list(this.#stop.signal)
    const names = new Set(items.map((claim) => claim.metadata.name))
    for (const name of [...this.#claims.keys()]) if (!names.has(name)) this.#change(name, undefined)
    // A claim that was deleted before it was ever seen is missed by its listeners alone.
    for (const name of this.#listeners.keys()) if (!names.has(name)) this.#change(name, undefined)
    for (const claim of items) this.#change(claim.metadata.name, claim)
    return metadata.resourceVersion ?? ''
  }

  #receive(type: string, object: Claim & { code?: number }): void {
    if (type === 'ERROR') {
      if (object.code === 410) this.#version = undefined
      return
    }
    if (this.#version === undefined) return
    this.#version = object.metadata.resourceVersion ?? this.#version
    if (type === 'ADDED' || type === 'MODIFIED') this.#change(object.metadata.name, object)
    if (type === 'DELETED') this.#change(object.metadata.name, undefined)
  }

  #change(name: string, claim: Claim | undefined): void {
    if (claim === undefined) this.#claims.delete(name)
    else this.#claims.set(name, claim)
    for (const listener of [...(this.#listeners.get(name) ?? [])]) listener(claim)
  }
}
