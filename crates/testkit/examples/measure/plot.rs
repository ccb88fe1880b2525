//! Small line plots as SVG.

use std::fmt::Write as _;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
/// Room for the axes.
const MARGIN: f64 = 64.0;
const COLOURS: [&str; 3] = ["#1f6feb", "#d1242f", "#1a7f37"];

/// One line.
pub(crate) struct Line {
    pub(crate) name: &'static str,
    pub(crate) points: Vec<(f64, f64)>,
}

/// Lines over a common axis, from zero on.
pub(crate) struct Plot {
    pub(crate) title: &'static str,
    pub(crate) x: &'static str,
    pub(crate) y: &'static str,
    pub(crate) lines: Vec<Line>,
}

impl Plot {
    pub(crate) fn svg(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let x_end = round_up(points().map(|point| point.0).fold(0.0, f64::max));
        let y_end = round_up(points().map(|point| point.1).fold(0.0, f64::max));
        let x_at = |x: f64| MARGIN + x / x_end * (WIDTH - 2.0 * MARGIN);
        let y_at = |y: f64| HEIGHT - MARGIN - y / y_end * (HEIGHT - 2.0 * MARGIN);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
             font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        );
        text(&mut svg, WIDTH / 2.0, 24.0, "middle", self.title);
        text(&mut svg, WIDTH / 2.0, HEIGHT - 16.0, "middle", self.x);
        text(&mut svg, 8.0, MARGIN - 16.0, "start", self.y);
        for step in 0..=4 {
            let part = f64::from(step) / 4.0;
            let (x, y) = (x_at(x_end * part), y_at(y_end * part));
            text(&mut svg, x, HEIGHT - MARGIN + 20.0, "middle", &short(x_end * part));
            text(&mut svg, MARGIN - 8.0, y + 4.0, "end", &short(y_end * part));
            let end = WIDTH - MARGIN;
            let _ = writeln!(svg, "<path d=\"M{MARGIN} {y:.1}H{end}\" stroke=\"#d0d7de\"/>");
        }
        for (number, line) in self.lines.iter().enumerate() {
            let colour = COLOURS[number % COLOURS.len()];
            let way: Vec<String> =
                line.points.iter().map(|(x, y)| format!("{:.1},{:.1}", x_at(*x), y_at(*y))).collect();
            let way = way.join(" ");
            let _ = writeln!(svg, "<polyline points=\"{way}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>");
            for (x, y) in &line.points {
                let _ =
                    writeln!(svg, "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{colour}\"/>", x_at(*x), y_at(*y));
            }
            #[allow(clippy::cast_precision_loss, reason = "three lines")]
            let y = MARGIN + 16.0 * number as f64;
            let _ = writeln!(svg, "<text x=\"{}\" y=\"{y}\" fill=\"{colour}\">{}</text>", MARGIN + 12.0, line.name);
        }
        svg.push_str("</svg>\n");
        svg
    }
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, text: &str) {
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"#1f2328\">{text}</text>");
}

/// 1, 2, 4, 5 or 8 times a power of ten: four equal steps of it are readable.
fn round_up(value: f64) -> f64 {
    let power = 10_f64.powf(value.max(1e-9).log10().floor());
    [1.0, 2.0, 4.0, 5.0, 8.0, 10.0].into_iter().map(|step| step * power).find(|end| *end >= value).unwrap_or(value)
}

fn short(value: f64) -> String {
    if value >= 10_000.0 { format!("{}k", value / 1000.0) } else { format!("{value}") }
}
