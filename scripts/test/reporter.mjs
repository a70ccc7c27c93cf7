/** A reporter of vitest: writes the result as JSON into the file that NACRE_TEST_REPORT names, for runners.mjs. */
import { writeFileSync } from 'node:fs'
import path from 'node:path'

export default class Report {
  onTestRunEnd(modules, unhandled) {
    const report = { passed: 0, failures: unhandled.map(unhandledFailure) }
    for (const module of modules) {
      const add = (test, errors) => {
        if (errors.length > 0)
          report.failures.push({ file: module.relativeModuleId, test, message: messageOf(errors) })
      }
      add('', module.errors())
      for (const suite of module.children.allSuites()) add(suite.fullName, suite.errors())
      for (const test of module.children.allTests()) {
        const { state, errors } = test.result()
        if (state === 'passed') report.passed++
        if (state === 'failed') add(test.fullName, errors)
      }
    }
    writeFileSync(process.env.NACRE_TEST_REPORT, JSON.stringify(report))
  }
}

/** An error outside of any test. vitest names the file that ran at that time, except after a crash. */
function unhandledFailure(error) {
  const { VITEST_TEST_PATH: file, VITEST_TEST_NAME: test = '' } = error
  return { file: file && path.relative(process.cwd(), file), test, message: messageOf([error]) }
}

function messageOf(errors) {
  return errors.map(({ name, message }) => message || name).join('\n')
}
