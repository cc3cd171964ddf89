'use strict'
// An application that goes on after errors, as kafka_conformance/edges/recovery.py runs it.

const { setTimeout: sleep } = require('node:timers/promises')

function emit(event) {
  process.stdout.write(JSON.stringify(event, (_, value) => (typeof value === 'bigint' ? Number(value) : value)) + '\n')
}

/** Records and errors that a consumer pushes, so that an application can poll for them. */
class Inbox {
  #waiting = []
  #wake = () => {}

  push(event) {
    this.#waiting.push(event)
    this.#wake()
  }

  /** All that has come, after a wait of at most so many milliseconds. */
  async poll(wait) {
    if (!this.#waiting.length) {
      const { promise, resolve } = withResolvers()
      this.#wake = resolve
      const timer = setTimeout(resolve, wait)
      await promise
      clearTimeout(timer)
      this.#wake = () => {}
    }
    return this.#waiting.splice(0)
  }

  /** Drops what came before a seek. */
  clear() {
    this.#waiting = []
  }
}

function withResolvers() {
  let resolve
  const promise = new Promise(given => {
    resolve = given
  })
  return { promise, resolve }
}

/** The loop: *application* has inbox, seek and position; its events are {offset, key, value} or {error}. */
async function recover(request, application) {
  let deadline = Date.now() + request.limit_ms
  let quiet = Date.now()
  let last = request.offset - 1
  let tried = -1
  let jumped = false
  while (Date.now() < deadline) {
    for (const event of await application.inbox.poll(500)) {
      quiet = Date.now()
      if (event.error === undefined) {
        last = Number(event.offset)
        emit({ offset: last, value: Buffer.from(event.value ?? '').toString('base64') })
        if (event.key?.toString() === request.end) return 'end'
        continue
      }
      const position = application.position()
      const place = placeOf(event.error)
      emit({ error: { type: event.error?.name, message: chain(event.error), ...place }, position })
      if (!request.seek) {
        deadline = Math.min(deadline, Date.now() + request.after_error_ms) // of the first error
        continue
      }
      tried = Math.max(place.offset ?? position ?? last + 1, tried + 1)
      await go(application, tried, 'error')
      break
    }
    if (request.seek && !jumped && Date.now() - quiet > request.silence_ms) {
      jumped = true
      quiet = Date.now()
      await go(application, request.past, 'silence')
    }
  }
  return 'time'
}

async function go(application, offset, why) {
  application.inbox.clear()
  emit({ sought: offset, why })
  try {
    // A seek that never ends is shown by what comes after it: nothing.
    await Promise.race([application.seek(offset), sleep(5000)])
  } catch (error) {
    emit({ error: { type: 'seek', message: chain(error) } })
  }
}

/** What an error says of its place; what it does not name is left out. */
function placeOf(error) {
  const place = {}
  for (let each = error, depth = 0; each && depth < 5; each = each.cause, depth += 1) {
    place.topic ??= each.topic
    place.partition ??= each.partition
    place.offset ??= each.offset === undefined ? undefined : Number(each.offset)
  }
  return place
}

function chain(error) {
  const texts = []
  for (let each = error; each && texts.length < 5; each = each.cause ?? each.errors?.at(-1)) texts.push(`${each.name}: ${each.message}`)
  return texts.join(' < ').slice(0, 2000)
}

/** Answers one request, and ends the process: closing may wait for what a stuck consumer does. */
async function serveRecovery(request, application) {
  emit({ done: await recover(request, application) })
  process.stdout.write('', () => process.exit(0)) // after all that waits for the pipe
}

module.exports = { Inbox, serveRecovery }
