//! Durations as people read them: two units at most, fewer the longer it is.

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// How long ago a timestamp of an object was; `None` when there is none.
pub(super) fn since(time: &Value, now: Timestamp) -> Option<String> {
    let time: Timestamp = time.as_str()?.parse().ok()?;
    Some(human(now.duration_since(time)))
}

/// Between two timestamps of an object.
pub(super) fn between(start: &Value, end: &Value) -> Option<String> {
    let start: Timestamp = start.as_str()?.parse().ok()?;
    let end: Timestamp = end.as_str()?.parse().ok()?;
    Some(human(end.duration_since(start)))
}

fn human(duration: SignedDuration) -> String {
    let seconds = duration.as_secs();
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    let pair = |big: i64, unit: char, small: i64, small_unit: char| match small {
        0 => format!("{big}{unit}"),
        _ => format!("{big}{unit}{small}{small_unit}"),
    };
    match () {
        () if seconds < -1 => "<invalid>".into(),
        () if seconds < 0 => "0s".into(),
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => pair(minutes, 'm', seconds % 60, 's'),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => pair(hours, 'h', minutes % 60, 'm'),
        () if hours < 48 => format!("{hours}h"),
        () if days < 8 => pair(days, 'd', hours % 24, 'h'),
        () if years < 2 => format!("{days}d"),
        () if years < 8 => pair(years, 'y', days % 365, 'd'),
        () => format!("{years}y"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_lose_precision_as_they_grow() {
        let (minute, hour, day) = (60, 3600, 86_400);
        let cases = [
            (-2, "<invalid>"),
            (0, "0s"),
            (119, "119s"),
            (2 * minute, "2m"),
            (2 * minute + 5, "2m5s"),
            (10 * minute + 5, "10m"),
            (3 * hour, "3h"),
            (7 * hour + minute, "7h1m"),
            (47 * hour, "47h"),
            (3 * day + hour, "3d1h"),
            (9 * day + hour, "9d"),
            (800 * day, "2y70d"),
            (9 * 365 * day, "9y"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(human(SignedDuration::from_secs(seconds)), expected, "{seconds}");
        }
    }
}
