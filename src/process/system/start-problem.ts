/** Why weir cannot start: one line for each problem, for the operator. */
export class StartProblem extends Error {
  override readonly name = 'StartProblem'

  constructor(readonly problems: readonly string[]) {
    super(problems.join('\n'))
  }
}
