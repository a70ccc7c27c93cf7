/** Gives each cell of a table the name of its column, which theme/tables.css shows on phones. */
export function nameColumns(tokens) {
  let names = []
  let column = 0
  for (const [index, token] of tokens.entries()) {
    if (token.type === 'thead_open') names = []
    if (token.type === 'tr_open') column = 0
    if (token.type === 'th_open') names.push(tokens[index + 1].content.replaceAll('`', ''))
    if (token.type !== 'td_open') continue
    const name = names[column++]
    if (name && tokens[index + 1].content !== '') token.attrSet('data-column', name)
  }
}
