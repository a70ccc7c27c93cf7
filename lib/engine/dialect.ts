/** What engines are asked about containers and images, and how their answers are read. */
import type { EngineName } from './find.js'

/** A container that nacre has made. */
export interface Container {
  /** Another container of the same name has another one, unless it is Apple's. */
  id: string
  name: string
  isRunning: boolean
  image: string
  /** The top of the project. */
  project: string
  /** The name of its copy of the runtime. */
  runtime: string
  /** The id of the user who has made it: several may use one engine. */
  user: string
}

/** What an engine says about a container: it may be anybody's. */
export interface Described {
  id: string
  name: string
  state: string
  labels: Record<string, string>
}

export interface Dialect {
  /** Arguments that print the ids of containers, those of nacre among them. */
  list: string[]
  /** Arguments before the ids of containers that describe these. */
  inspect: string[]
  readContainers(answer: string): Described[]
  /** Whether an error says that there is no such container, or that another client removes it. */
  isMissing(error: string): boolean
  /** Arguments before the name of an image that describe it. */
  inspectImage: string[]
  /** The processors that an image is for, as the engine names them. */
  readProcessors(answer: string): string[]
  /** Arguments before the name of an image that fetch it. */
  pull: string[]
  /** Arguments before the name of a container that remove it with its anonymous volumes. */
  remove: string[]
}

const docker: Dialect = {
  list: ['ps', '--all', '--quiet', '--no-trunc', '--filter', 'label=dev.nacre=1'],
  inspect: [
    ...['inspect', '--type', 'container', '--format'],
    // Podman knows the id by this form alone.
    '["{{.Id}}",{{json .Name}},{{json .State.Status}},{{json .Config.Labels}}]',
  ],
  readContainers: (answer) =>
    answer.split('\n').flatMap((line) => {
      if (line === '') return []
      const [id, name, state, labels] = JSON.parse(line)
      const bare = String(name).replace(/^\//, '')
      return [{ id: String(id), name: bare, state: String(state), labels: labels ?? {} }]
    }),
  isMissing: (error) => /no such (container|object)|removal of container .* in progress/i.test(error),
  inspectImage: ['image', 'inspect', '--format', '{{.Architecture}}'],
  readProcessors: (answer) => [answer],
  pull: ['pull', '--quiet'],
  remove: ['rm', '--volumes'],
}

/** Apple's `container` prints JSON. An answer without the container is empty, or an error, depending on its version. */
const apple: Dialect = {
  list: ['list', '--all', '--quiet'],
  inspect: ['inspect'],
  readContainers: (answer) =>
    items(answer).map(({ id, status, configuration }) => {
      const name = String(configuration?.id ?? id)
      // Version 1.0 has made the status an object.
      const state = String(status?.state ?? status)
      return { id: name, name, state, labels: configuration?.labels ?? {} }
    }),
  isMissing: (error) => /no such container|not ?found/i.test(error),
  inspectImage: ['image', 'inspect'],
  readProcessors: (answer) =>
    items(answer).flatMap(({ variants }) =>
      items(variants).flatMap(({ platform }) => platform?.architecture ?? []),
    ),
  pull: ['image', 'pull', '--progress', 'none'],
  // Its volumes outlive it: they have names, and are removed after it.
  remove: ['delete'],
}

export const DIALECTS: Record<EngineName, Dialect> = { docker, podman: docker, container: apple }

/** What is read of a container or an image of Apple's. */
interface Item {
  id?: unknown
  status?: { state?: unknown }
  configuration?: { id?: unknown; labels?: Record<string, string> }
  variants?: unknown
  platform?: { architecture?: string }
}

function items(value: unknown): Item[] {
  const list = typeof value === 'string' ? JSON.parse(value) : value
  return Array.isArray(list) ? list.filter((item) => typeof item === 'object' && item !== null) : []
}

/** The labels of a container. Some engines take `=` in a value for another field. */
export function labelsOf(container: Omit<Container, 'id' | 'isRunning' | 'user'>): string[] {
  const labels = Object.entries({ ...container, user: ownUser() }).map(
    ([key, value]) => `dev.nacre.${key}=${value.replace(/[%=\n]/g, encodeURIComponent)}`,
  )
  return ['dev.nacre=1', ...labels].flatMap((label) => ['--label', label])
}

/**
 * The container, if nacre has made it. An image can have been made from such a container, and gives its labels to others: but
 * not its name.
 */
export function ownContainer({ id, name, state, labels }: Described): Container | undefined {
  const read = (key: string) => {
    try {
      return decodeURIComponent(labels[`dev.nacre.${key}`] ?? '')
    } catch {
      return ''
    }
  }
  if (read('name') !== name) return undefined
  return {
    ...{ id, name },
    isRunning: state === 'running',
    ...{ image: read('image'), project: read('project'), runtime: read('runtime'), user: read('user') },
  }
}

/** Empty on Windows, whose users have no ids. */
export function ownUser(): string {
  return String(process.getuid?.() ?? '')
}
