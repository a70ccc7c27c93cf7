/**
 * Tells what the demo does, and checks it: every claim is a line that says `ok` or `NOT OK`.
 *
 * Plain lines on standard output; nothing depends on a terminal.
 */

/** Output of commands is shown up to this many lines. */
const LONGEST_OUTPUT = 8

export class Story {
  #chapters = 0
  #checks = 0
  #failures = 0

  /** Number of claims that did not hold. */
  get failures() {
    return this.#failures
  }

  title(text) {
    this.#chapters += 1
    console.log(`\n${this.#chapters}. ${text}`)
  }

  say(text) {
    console.log(`   ${text}`)
  }

  /** Runs a command with `exec` of a sandbox or session and shows it with what it printed. Gives the result. */
  async run(where, command, options) {
    const shown = typeof command === 'string' ? command : JSON.stringify(command)
    shown.split('\n').forEach((line, index) => {
      console.log(`   ${index === 0 ? '$' : '>'} ${line}`)
    })
    const result = await where.exec(command, options)
    this.show(result.all)
    return result
  }

  show(output) {
    const lines = output === '' ? [] : output.replace(/\n$/, '').split('\n')
    for (const line of lines.slice(0, LONGEST_OUTPUT)) console.log(`     ${line}`)
    if (lines.length > LONGEST_OUTPUT) console.log(`     ... and ${lines.length - LONGEST_OUTPUT} lines more`)
  }

  /** One claim. `found` is shown when it does not hold. */
  check(claim, holds, found) {
    this.#checks += 1
    if (holds) {
      console.log(`   ok      ${claim}`)
    } else {
      this.#failures += 1
      console.log(`   NOT OK  ${claim}: ${JSON.stringify(found)}`)
    }
  }

  /** The last line. */
  end(seconds) {
    const count = `${this.#checks} checks, ${this.#failures} of them failed`
    console.log(`\n${count}, ${seconds.toFixed(1)} s.`)
  }
}
