/** The list of requests to hosts with a secret or rules. */
import { el, size, span } from './dom.ts'
import { ListPanel } from './list-panel.ts'
import type { Model, Requested } from './model.ts'

const FAILURES = 400

export const requestsPanel = ({ requests }: Model): ListPanel<Requested> =>
  new ListPanel({
    ...{ id: 'requests', title: 'Requests', filter: 'Host, method or path', all: requests },
    only: { label: 'Denied only', has: ({ denied }) => denied !== undefined },
    columns: ['Session', 'Request', 'Host', 'Status', 'Time', 'Sent', 'Received', 'Secrets'],
    none: 'No request is like that.',
    text: ({ sessionId, method, path, host, denied }) =>
      `${sessionId} ${method} ${path} ${host} ${denied ?? ''}`,
    row: rowOf,
  })

function rowOf(request: Requested): { look?: string; cells: HTMLElement[] } {
  const { sessionId, method, path, host, status, denied, ms, sent, received, secrets = [] } = request
  const what = `${method} ${path}`
  const [look, text] =
    denied !== undefined
      ? ['deleted', `denied: ${denied}`]
      : status === null
        ? ['deleted', 'cut off']
        : [status >= FAILURES ? 'deleted' : 'created', String(status)]
  return {
    ...(denied !== undefined && { look: 'denied' }),
    cells: [
      el('td', {}, sessionId),
      el('th', { scope: 'row', title: what }, what),
      el('td', { title: host }, host),
      el('td', {}, el('span', { class: `kind ${look}` }, text)),
      el('td', {}, span(ms)),
      el('td', {}, size(sent)),
      el('td', {}, size(received)),
      el('td', {}, secrets.join(', ')),
    ],
  }
}
