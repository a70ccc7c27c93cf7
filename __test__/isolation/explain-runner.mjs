// Runs commands in a sandbox, and prints the denials of each.
const [, , built] = process.argv
const { Sandbox } = await import(built)
let text = ''
for await (const data of process.stdin) text += data
const { options, commands } = JSON.parse(text)
const sandbox = new Sandbox(options)
const all = []
for (const command of commands) all.push((await sandbox.exec(command)).denials)
await sandbox.destroy()
console.log(JSON.stringify(all))
