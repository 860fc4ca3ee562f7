/**
 * A provider on its own machine, started by `FarMachine`. Prints `ready`, and then the model of each request. Model
 * `well` answers, `talks` streams without end, every other model stays silent.
 */

import { answersText, chatFrames, endless, silent } from './scenarios.ts'
import { type Scenario, Upstream } from './upstream.ts'

const [role = '', hello = ''] = chatFrames(['Hello'])

const heard =
  (scenario: Scenario): Scenario =>
  (call) => {
    console.log(call.model)
    return scenario(call)
  }

const upstream = await Upstream.start(
  { well: heard(answersText('Hello')), talks: heard(endless([role], hello)) },
  8080,
  '0.0.0.0',
)
upstream.otherwise(heard(silent()))
console.log('ready')

// It ends when its parent process ends.
await Bun.stdin.text()
process.exit()
