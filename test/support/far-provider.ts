/**
 * A provider on a machine of its own, started by `FarMachine`. Says `ready`, and then the model of each request as it comes. `well` answers,
 * `talks` never stops talking, everybody else says nothing.
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

// It ends with whoever started it, however that ends.
await Bun.stdin.text()
process.exit()
