//! Sets of completion indexes: `status.completedIndexes`, `status.failedIndexes`, `successPolicy`'s `succeededIndexes`.
//!
//! An Indexed Job may have millions of indexes, so the wire format and [`IndexSet`] both speak in ranges.

use std::fmt;

/// Why a text is not a valid list of indexes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexError {
    /// A fragment has more than one `-`.
    TooManyParts {
        /// The fragment between two commas.
        fragment: String,
    },
    /// A part is not a number.
    NotANumber {
        /// The text that should have been a number.
        part: String,
    },
    /// An index is not below `spec.completions`.
    TooLarge {
        /// The text of the index.
        part: String,
    },
    /// An index is not above the one before it.
    NotIncreasing {
        /// The index before.
        previous: u32,
        /// The index that should have been larger.
        current: u32,
    },
}

impl fmt::Display for IndexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyParts { fragment } => write!(f, "the fragment {fragment:?} has more than two parts"),
            Self::NotANumber { part } => write!(f, "cannot convert string to integer for index: {part:?}"),
            Self::TooLarge { part } => write!(f, "too large index: {part:?}"),
            Self::NotIncreasing { previous, current } => {
                write!(f, "non-increasing order, previous: {previous}, current: {current}")
            }
        }
    }
}

impl std::error::Error for IndexError {}

/// A set of indexes, kept as sorted ranges with gaps between them: memory goes by ranges, not by indexes.
///
/// ```
/// use job_api::IndexSet;
///
/// let done = IndexSet::parse("0-2,5,7,8", 10)?;
/// assert_eq!((done.len(), done.contains(1), done.contains(6)), (6, true, false));
/// assert_eq!(done.union(&[3, 4].into_iter().collect()).to_string(), "0-5,7,8");
/// # Ok::<(), job_api::index_set::IndexError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct IndexSet {
    /// First and last index of each range; every range starts at least two above the end of the one before.
    ranges: Vec<(u32, u32)>,
}

impl IndexSet {
    /// The set without indexes.
    pub const fn new() -> Self {
        Self { ranges: Vec::new() }
    }

    /// Every index of a Job with that many completions.
    pub fn all(completions: u32) -> Self {
        completions.checked_sub(1).map_or_else(Self::new, |last| Self { ranges: vec![(0, last)] })
    }

    /// Reads the wire format as strictly as the server does for a Job with that many completions.
    ///
    /// Leading zeros, a plus sign and uncompressed lists (`0,1,2`) are accepted; spaces, empty parts, `1-1`, an index
    /// that is not below `completions` and any order but the increasing one are not.
    pub fn parse(text: &str, completions: i32) -> Result<Self, IndexError> {
        let mut set = Self::new();
        for_each_range(text, completions, |first, last| set.push_back(first, last))?;
        Ok(set)
    }

    /// How many indexes are in the set.
    pub fn len(&self) -> u64 {
        self.ranges.iter().map(|(first, last)| u64::from(last - first) + 1).sum()
    }

    /// True when there is no index in the set.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// True when the index is in the set.
    pub fn contains(&self, index: u32) -> bool {
        let at = self.ranges.partition_point(|(_, last)| *last < index);
        self.ranges.get(at).is_some_and(|(first, _)| *first <= index)
    }

    /// The ranges, first and last index of each, in increasing order with gaps between them.
    pub fn ranges(&self) -> &[(u32, u32)] {
        &self.ranges
    }

    /// Every index, in increasing order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.ranges.iter().flat_map(|(first, last)| *first..=*last)
    }

    /// Adds one index.
    pub fn insert(&mut self, index: u32) {
        if self.ranges.last().is_none_or(|(_, last)| *last < index) {
            self.push_back(index, index);
        } else if !self.contains(index) {
            *self = self.union(&Self { ranges: vec![(index, index)] });
        }
    }

    /// Indexes that are in either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut result = Self::new();
        let (mut left, mut right) = (self.ranges.as_slice(), other.ranges.as_slice());
        loop {
            let source = match (left.first(), right.first()) {
                (Some(a), Some(b)) if a <= b => &mut left,
                (Some(_), None) => &mut left,
                (_, Some(_)) => &mut right,
                (None, None) => return result,
            };
            if let Some(((first, last), rest)) = source.split_first() {
                result.push_back(*first, *last);
                *source = rest;
            }
        }
    }

    /// Indexes that are in this set and not in the other.
    #[must_use]
    pub fn subtract(&self, other: &Self) -> Self {
        let mut result = Self::new();
        let mut holes = other.ranges.as_slice();
        for &(mut first, last) in &self.ranges {
            while let Some(((_, hole_last), rest)) = holes.split_first()
                && *hole_last < first
            {
                holes = rest;
            }
            let mut ahead = holes.iter();
            let is_left = loop {
                match ahead.next() {
                    Some((hole_first, hole_last)) if *hole_first <= last => {
                        if first < *hole_first {
                            result.push_back(first, hole_first - 1);
                        }
                        if *hole_last >= last {
                            break false;
                        }
                        first = hole_last + 1;
                    }
                    _ => break true,
                }
            };
            if is_left {
                result.push_back(first, last);
            }
        }
        result
    }

    /// Indexes that are in both sets.
    #[must_use]
    pub fn intersect(&self, other: &Self) -> Self {
        let mut result = Self::new();
        let (mut left, mut right) = (self.ranges.as_slice(), other.ranges.as_slice());
        while let (Some((a_first, a_last)), Some((b_first, b_last))) = (left.first(), right.first()) {
            let (first, last) = (*a_first.max(b_first), *a_last.min(b_last));
            if first <= last {
                result.push_back(first, last);
            }
            if a_last < b_last {
                left = &left[1..];
            } else {
                right = &right[1..];
            }
        }
        result
    }

    /// Indexes below `completions`: what is left after an elastic Job was scaled down.
    #[must_use]
    pub fn clip(&self, completions: u32) -> Self {
        self.intersect(&Self::all(completions))
    }

    /// Adds a range that does not start before the last one; touching or overlapping ranges melt together.
    fn push_back(&mut self, first: u32, last: u32) {
        match self.ranges.last_mut() {
            Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
            _ => self.ranges.push((first, last)),
        }
    }
}

impl FromIterator<u32> for IndexSet {
    fn from_iter<I: IntoIterator<Item = u32>>(indexes: I) -> Self {
        let mut indexes: Vec<u32> = indexes.into_iter().collect();
        indexes.sort_unstable();
        let mut set = Self::new();
        for index in indexes {
            set.push_back(index, index);
        }
        set
    }
}

/// The text that the built-in Job controller writes: `4`, `4,5` for two in a row, `4-6` for three and more.
impl fmt::Display for IndexSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (first, last) in &self.ranges {
            match last - first {
                0 => write!(f, "{separator}{first}")?,
                1 => write!(f, "{separator}{first},{last}")?,
                _ => write!(f, "{separator}{first}-{last}")?,
            }
            separator = ",";
        }
        Ok(())
    }
}

/// Checks the format without building a set; returns the number of indexes.
pub(crate) fn count(text: &str, completions: i32) -> Result<i64, IndexError> {
    let mut total = 0;
    for_each_range(text, completions, |first, last| total += i64::from(last - first) + 1)?;
    Ok(total)
}

fn for_each_range(text: &str, completions: i32, mut visit: impl FnMut(u32, u32)) -> Result<(), IndexError> {
    if text.is_empty() {
        return Ok(());
    }
    let mut previous = None;
    for fragment in text.split(',') {
        let (first, last) = parse_range(fragment, completions)?;
        if let Some(previous) = previous
            && previous >= first
        {
            return Err(IndexError::NotIncreasing { previous, current: first });
        }
        visit(first, last);
        previous = Some(last);
    }
    Ok(())
}

fn parse_range(fragment: &str, completions: i32) -> Result<(u32, u32), IndexError> {
    let Some((first, last)) = fragment.split_once('-') else {
        let only = parse_index(fragment, completions)?;
        return Ok((only, only));
    };
    if last.contains('-') {
        return Err(IndexError::TooManyParts { fragment: fragment.to_owned() });
    }
    let (first, last) = (parse_index(first, completions)?, parse_index(last, completions)?);
    if first >= last {
        return Err(IndexError::NotIncreasing { previous: first, current: last });
    }
    Ok((first, last))
}

fn parse_index(part: &str, completions: i32) -> Result<u32, IndexError> {
    let index: i64 = part.parse().map_err(|_| IndexError::NotANumber { part: part.to_owned() })?;
    if index >= i64::from(completions) {
        return Err(IndexError::TooLarge { part: part.to_owned() });
    }
    // A minus sign separates the parts of a range, so a parsed index cannot be negative.
    u32::try_from(index).map_err(|_| IndexError::NotANumber { part: part.to_owned() })
}

/// The first index that the server finds in both texts.
///
/// It walks over both lists at once and skips fragments that it cannot read. On lists that are not in order it can miss
/// an overlap; we walk the same way so that we miss the same ones.
pub(crate) fn overlap(completed: &str, failed: &str, completions: i32) -> Option<u32> {
    let mut completed = readable_ranges(completed, completions);
    let mut failed = readable_ranges(failed, completions);
    let (mut done, mut lost) = (completed.next()?, failed.next()?);
    loop {
        if done.0 <= lost.1 && lost.0 <= done.1 {
            return Some(done.0.max(lost.0));
        }
        if done.0 <= lost.0 {
            done = completed.next()?;
        } else {
            lost = failed.next()?;
        }
    }
}

fn readable_ranges(text: &str, completions: i32) -> impl Iterator<Item = (u32, u32)> {
    text.split(',').filter_map(move |fragment| parse_range(fragment, completions).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_read_as_the_server_reads_it() {
        for (text, completions, expected) in [
            ("", 0, Some("")),
            ("0", 1, Some("0")),
            ("0,1,2", 3, Some("0-2")),
            ("0-1", 2, Some("0,1")),
            ("1,3-5,7", 8, Some("1,3-5,7")),
            ("007,+8", 9, Some("7,8")),
            ("0", 0, None),
            ("1", 1, None),
            ("1-1", 5, None),
            ("2-1", 5, None),
            ("1,1", 5, None),
            ("0-2,2", 5, None),
            ("3,1", 5, None),
            ("1-2-3", 5, None),
            ("-1", 5, None),
            ("1-", 5, None),
            ("1,", 5, None),
            (",", 5, None),
            (" 1", 5, None),
            ("1_0", 50, None),
            ("0x1", 50, None),
            ("99999999999999999999", i32::MAX, None),
            ("0", -1, None),
        ] {
            let parsed = IndexSet::parse(text, completions);
            assert_eq!(parsed.as_ref().ok().map(ToString::to_string).as_deref(), expected, "{text:?}: {parsed:?}");
            assert_eq!(count(text, completions).is_ok(), parsed.is_ok());
        }
    }

    #[test]
    fn a_million_indexes_in_one_range_are_one_range() {
        let set = IndexSet::parse("0-999999", 1_000_000).unwrap();
        assert_eq!((set.len(), set.ranges().len()), (1_000_000, 1));
    }

    #[test]
    fn overlap_skips_what_it_cannot_read() {
        assert_eq!(overlap("0-3,5", "4,5", 10), Some(5));
        assert_eq!(overlap("0-3,x,5", "4,-,5", 10), Some(5));
        assert_eq!(overlap("0-3", "4", 10), None);
        assert_eq!(overlap("", "4", 10), None);
        assert_eq!(overlap("2-7", "0,7-9", 10), Some(7));
        assert_eq!(overlap("5", "5", 5), None, "an index that is not below completions cannot be read");
    }

    #[test]
    fn single_indexes_are_inserted_in_any_order() {
        let mut set = IndexSet::new();
        for index in [5, 1, 4, 1, 0, 7] {
            set.insert(index);
        }
        assert_eq!(set.to_string(), "0,1,4,5,7");
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 1, 4, 5, 7]);
    }
}
