//! Tests of chart geometry: no mark is outside the frame, whatever the values.

use proptest::prelude::*;

use super::*;

/// Returns (x, y) of every point in the paths and attributes of a drawing.
fn points(svg: &str) -> Vec<(f64, f64)> {
    let mut found = Vec::new();
    for path in svg.split(" d=\"").skip(1) {
        let path = path.split('"').next().unwrap();
        for step in path.split(['M', 'L', 'Z']).filter(|step| !step.is_empty()) {
            let (x, y) = step.split_once(' ').unwrap();
            found.push((x.parse().unwrap(), y.parse().unwrap()));
        }
    }
    for circle in svg.split("<circle ").skip(1) {
        let of = |name: &str| -> f64 {
            let after = circle.split(name).nth(1).unwrap();
            after.split('"').next().unwrap().parse().unwrap()
        };
        found.push((of("cx=\""), of("cy=\"")));
    }
    found
}

fn chart(lines: Vec<Line>, high: f64, log_from: Option<f64>) -> Chart {
    let mut steps: Vec<(f64, String)> = lines
        .iter()
        .flat_map(|line| &line.points)
        .map(|point| (point.x, point.x.to_string()))
        .collect();
    steps.sort_by(|one, two| one.0.total_cmp(&two.0));
    steps.dedup_by(|one, two| one.0 == two.0);
    Chart {
        name: "test".to_owned(),
        x: XAxis {
            title: "producers".to_owned(),
            steps,
            even: false,
        },
        y: YAxis {
            quantity: Quantity::Rate,
            high,
            log_from,
        },
        lines,
    }
}

fn line(series: Option<usize>, points: &[(f64, f64)]) -> Line {
    let points = points.iter().map(|(x, y)| Point {
        x: *x,
        y: *y,
        spread: Some((y * 0.9, y * 1.1)),
    });
    Line {
        label: "forebay".to_owned(),
        series,
        points: points.collect(),
    }
}

#[test]
fn a_limit_runs_from_the_first_step_to_the_last() {
    let lines = vec![
        line(Some(0), &[(1.0, 1e9), (10.0, 2e9)]),
        line(None, &[(1.0, 1.5e9)]),
    ];
    let svg = chart(lines, 2e9, None).draw();
    let limit = svg.split("class=\"l limit\"").next().unwrap();
    let path = limit.rsplit("d=\"").next().unwrap();
    let heights: Vec<_> = path
        .trim_end_matches("\" ")
        .split(['M', 'L'])
        .filter_map(|step| step.split_once(' '))
        .collect();
    assert_eq!(heights.len(), 2, "{path}");
    assert_eq!(heights[0].1, heights[1].1, "a level line: {path}");
}

#[test]
fn marks_say_what_they_are() {
    let svg = chart(vec![line(Some(1), &[(4.0, 1.5e9)])], 2e9, None).draw();
    assert!(
        svg.contains("<title>forebay: 1.5 GB/s at 4 producers (1.35..1.65 GB/s)</title>"),
        "{svg}"
    );
}

#[test]
fn a_chart_without_values_is_a_frame() {
    let svg = chart(vec![line(Some(0), &[])], f64::NAN, None).draw();
    assert!(svg.contains("aria-label=\"test\""));
    assert!(!svg.contains("NaN") && !svg.contains("inf"));
}

proptest! {
    #[test]
    fn nothing_is_outside_the_frame(
        values in prop::collection::vec((any::<f64>(), any::<f64>()), 0..12),
        more in prop::collection::vec((0.0..1e3, 0.0..1e10), 0..12),
        high in any::<f64>(),
        log_from in prop::option::of(any::<f64>()),
    ) {
        let lines = vec![line(Some(0), &values), line(Some(2), &more), line(None, &more)];
        let chart = chart(lines, high, log_from);
        let frame = chart.frame();
        let svg = chart.draw();
        prop_assert!(!svg.contains("NaN") && !svg.contains("inf\""), "{svg}");
        for (x, y) in points(&svg) {
            // Marks reach 4 beyond their place; ticks reach below the axis.
            prop_assert!((frame.left - 4.1..=frame.right + 4.1).contains(&x), "{x} {frame:?}");
            prop_assert!((frame.top - 4.1..=frame.bottom + 4.1).contains(&y), "{y} {frame:?}");
        }
    }
}
