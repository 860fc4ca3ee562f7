import { describe, expect, test } from 'bun:test'
import { Type } from '@sinclair/typebox'
import { CallerError } from '../../src/core/caller-error.ts'
import type { JsonObject } from '../../src/core/json.ts'
import { compile, nullable } from '../../src/dialects/body-schema.ts'

const Content = Type.Union([Type.String(), Type.Array(Type.Object({ type: Type.String() }))])
const check = compile(
  Type.Object({ content: Content, limit: nullable(Type.Integer({ minimum: 1 })), system: nullable(Content) }),
)

function complaintOf(body: JsonObject): string {
  try {
    check(body)
    return 'accepted'
  } catch (error) {
    if (error instanceof CallerError) return `${error.detail.param}: ${error.message}`
    throw error
  }
}

describe('an error names the field, and all allowed forms', () => {
  test.each<[JsonObject, string]>([
    [{ content: 'a', limit: null, system: [] }, 'accepted'],
    [{}, "content: Missing required field: 'content'."],
    [{ content: 5 }, "content: Invalid value for 'content': expected string or array."],
    [{ content: null }, "content: Invalid value for 'content': expected string or array."],
    [{ content: [5] }, "content[0]: Invalid value for 'content[0]': expected object."],
    [{ content: [{}] }, "content[0].type: Missing required field: 'content[0].type'."],
    [{ content: 'a', limit: 'x' }, "limit: Invalid value for 'limit': expected integer."],
    [{ content: 'a', limit: 0 }, "limit: Invalid value for 'limit': expected integer to be greater or equal to 1."],
    [{ content: 'a', system: 5 }, "system: Invalid value for 'system': expected string or array."],
  ])('%j', (body, complaint) => expect(complaintOf(body)).toBe(complaint))
})
