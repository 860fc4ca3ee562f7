import { describe, expect, test } from 'bun:test'
import { answerHead } from '../../src/http/headers.ts'

type Case = Parameters<typeof answerHead>

const answer = { requestedModel: 'fast', servedModel: 'small', fallbacks: 0, route: undefined, isStream: false }
const requests = (left: string) => ({ 'x-ratelimit-limit-requests': '9', 'x-ratelimit-remaining-requests': left })

const cases: readonly Case[] = [
  ['req_1', { ...requests('8'), 'x-ratelimit-limit-tokens': '70' }, answer],
  ['req_2', requests('7'), answer],
  ['req_3', {}, answer],
  ['req_4', {}, { ...answer, route: 'a=answered' }],
  ['req_5', requests('6'), { ...answer, route: 'b=answered', isStream: true }],
  ['req_6', requests('5'), { ...answer, fallbacks: 2, isStream: true }],
  ['req_7', requests('4'), { ...answer, requestedModel: 'small' }],
  ['req_8', {}, { ...answer, servedModel: 'large' }],
  ['req_9', requests('3'), { ...answer, isStream: true }],
  ['req_10', requests('3'), { ...answer, fallbacks: 2 }],
  ['req_11', { 'x-ratelimit-limit-tokens': '9', 'x-ratelimit-remaining-tokens': '3' }, answer],
]

function expected([requestId, limits, { requestedModel, servedModel, fallbacks, route, isStream }]: Case) {
  return {
    ...limits,
    ...(route === undefined ? {} : { 'x-gateway-route': route }),
    ...(isStream
      ? {
          'content-type': 'text/event-stream; charset=utf-8',
          'cache-control': 'no-cache',
          connection: 'keep-alive',
          'x-accel-buffering': 'no',
        }
      : { 'content-type': 'application/json' }),
    'x-request-id': requestId,
    'request-id': requestId,
    'x-gateway-requested-model': requestedModel,
    'x-gateway-served-model': servedModel,
    'x-gateway-fallback-count': String(fallbacks),
  }
}

describe('headers of answers', () => {
  test('are those of their own answer, whatever answer came before', () => {
    for (const first of cases)
      for (const second of cases) {
        answerHead(...first)
        const { headers, bytes } = answerHead(...second)
        const response = new Response('', { headers })
        // The response has its own copy.
        answerHead(...first)
        expect(Object.fromEntries(response.headers)).toEqual(expected(second))
        const lines = [...response.headers].map(([name, value]) => `${name}: ${value}\r\n`).join('')
        expect(bytes - lines.length).toBe(128)
      }
  })
})
