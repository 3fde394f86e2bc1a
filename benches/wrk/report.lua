-- Prints the outcome of a run as one line of JSON, with times in milliseconds.
function done(summary, latency)
  local errors = summary.errors
  local broken = errors.connect + errors.read + errors.write + errors.timeout
  io.write(string.format(
    '{"requests": %d, "seconds": %.6f, "refused": %d, "broken": %d, "mean_ms": %.4f, "p50_ms": %.4f, "p99_ms": %.4f, "max_ms": %.4f}\n',
    summary.requests, summary.duration / 1e6, errors.status, broken, latency.mean / 1000, latency:percentile(50) / 1000,
    latency:percentile(99) / 1000, latency.max / 1000))
end

-- What every request needs.
function headers()
  wrk.headers['Client-ID'] = '3381af92-2b9e-11e3-b191-71861300734c'
  wrk.headers['X-Project-ID'] = 'bench'
  wrk.headers['Content-Type'] = 'application/json'
end
