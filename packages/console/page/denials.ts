/** The list of what was refused, with the rule that refused it and what would allow it. */
import { el } from './dom.ts'
import { ListPanel } from './list-panel.ts'
import type { Denied, Model } from './model.ts'

export const denialsPanel = ({ denials }: Model): ListPanel<Denied> =>
  new ListPanel({
    ...{ id: 'denials', title: 'Refused', filter: 'Target, program or rule', all: denials },
    columns: ['Session', 'What', 'Kind', 'Program', 'Rule', 'Would allow it'],
    none: 'Nothing that was refused is like that.',
    text: (event) => [event.sessionId, ...wordsOf(event)].join(' '),
    row(event) {
      const [target = '', kind = '', program = '', rule = '', fix = ''] = wordsOf(event)
      const { command = program, pid } = event.denial
      const about = pid === undefined ? command : `${command} (pid ${pid})`
      return {
        cells: [
          el('td', {}, event.sessionId),
          el('th', { scope: 'row', title: target }, target),
          el('td', {}, el('span', { class: 'kind deleted' }, kind)),
          el('td', { title: about }, program.slice(program.lastIndexOf('/') + 1)),
          el('td', {}, rule),
          el('td', { title: fix }, fix),
        ],
      }
    },
  })

function wordsOf({ denial }: Denied): string[] {
  const { target, kind, program = '', rule, fix, request } = denial
  const wanted = request === undefined ? target : `${request.method} ${target}${request.path}`
  const change = fix?.add === undefined ? fix?.remove && `without ${fix.remove}` : `with ${fix.add}`
  return [wanted, kind, program, rule, fix && change ? `${fix.option} ${change}` : '']
}
