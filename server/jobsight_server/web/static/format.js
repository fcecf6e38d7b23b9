// Formats values for people; the same as units.py (held equal by a test).
import { written } from "./clock.js";

const DASH = "–";
const DECIMAL = ["", "k", "M", "G", "T", "P", "E"];
const BINARY = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

const grouped = (text) => {
  const [whole, fraction] = text.split(".");
  const commas = whole.replace(/\B(?=(\d{3})+(?!\d))/g, ",");
  return fraction === undefined ? commas : `${commas}.${fraction}`;
};

const count = (value) => grouped(value.toFixed(0));

function threeDigits(value) {
  const size = Math.abs(value);
  return grouped(value.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2));
}

function hours(value) {
  const size = Math.abs(value);
  return size > 0 && size < 0.995 ? value.toFixed(size >= 0.0995 ? 3 : 4) : threeDigits(value);
}

function scaled(value, step, prefixes, unit) {
  let rest = Math.abs(value), position = 0;
  while (rest >= step - 0.5 && position < prefixes.length - 1) {
    rest /= step;
    position += 1;
  }
  const whole = position === 0 && Number.isInteger(rest);
  return `${value < 0 ? "-" : ""}${whole ? count(rest) : threeDigits(rest)} ${prefixes[position]}${unit}`;
}

function duration(value) {
  const sign = value < 0 ? "-" : "", seconds = Math.abs(value);
  if (seconds > 0 && seconds < 0.9995) return `${sign}${(seconds * 1000).toFixed(0)} ms`;
  if (seconds < 59.95) return `${sign}${seconds.toFixed(Number.isInteger(seconds) ? 0 : 1)} s`;
  const whole = Math.round(seconds), in_ = (step) => Math.floor(whole / step);
  const two = (large, unit, small, smaller) => `${sign}${large} ${unit}${small ? ` ${small} ${smaller}` : ""}`;
  if (whole < 3600) return two(in_(60), "min", whole % 60, "s");
  if (whole < 86400) return two(in_(3600), "h", Math.floor((whole % 3600) / 60), "min");
  return two(in_(86400), "d", Math.floor((whole % 86400) / 3600), "h");
}

const utc = (value, length) => {
  const moment = new Date(Math.floor(value) * 1000);
  const year = moment.getUTCFullYear();
  return year >= 1 && year <= 9999 ? written(moment, length) : DASH;
};

const percent = (value) => `${(value * 100).toFixed(0)} %`;

const WRITERS = {
  count,
  bps: (value) => scaled(value, 1000, DECIMAL, "bit/s"),
  bytes: (value) => scaled(value, 1024, BINARY, "B"),
  seconds: duration,
  age: (value) => `${duration(Math.trunc(value))} ago`,
  share: (value) => `${(value * 100).toFixed(1)} %`,
  percent,
  decimal: (value) => grouped(value.toFixed(1)),
  hours,
  rate: (value) => (value > 0 && value < 100 ? `${value.toFixed(1)} /s` : `${count(value)} /s`),
  minute_rate: (bars) => (bars.length > 0 ? WRITERS.rate(bars.slice(-4).reduce((a, b) => a + b, 0) / 4) : DASH),
  utc: (value) => utc(value, 19),
  day: (value) => utc(value, 16),
  text: (value) => (value === "" ? DASH : String(value)),
};

export const format = (name, value) => (value == null ? DASH : WRITERS[name](value));
