/** Agents that work on the project, each in a fork. A real one would ask a model. */
const inFunction = (name, pipeline) => async (fork) => {
  const text = await fork.files.read('text.sh')
  const [before, after] = text.split(`${name}() {`)
  await fork.files.write('text.sh', `${before}${name}() {${after.replace('cat', () => pipeline)}`)
}

export const agents = [
  {
    name: 'slugs',
    work: inFunction('slug', "tr 'A-Z' 'a-z' | tr -cs 'a-z0-9' '-' | sed 's/-$//'"),
  },
  { name: 'initials', work: inFunction('initials', "sed 's/\\([A-Z]\\)[a-z]* */\\1/g'") },
  { name: 'lower case', work: inFunction('slug', "tr 'A-Z' 'a-z'") },
  { name: 'a mistake', work: (fork) => fork.exec('rm -rf ./*') },
]
