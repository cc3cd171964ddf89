package kafkaproof.vectors;

import java.util.List;

/** Chooses cases. An empty list restricts nothing; magics and compressions are what a codec can read or write. */
public record Filter(
        List<String> areas,
        List<String> ops,
        List<String> verdicts,
        List<String> profiles,
        List<String> compressions,
        List<Integer> magics) {

    public static Filter all() {
        return new Filter(List.of(), List.of(), List.of(), List.of(), List.of(), List.of());
    }

    public Filter areas(String... names) {
        return new Filter(List.of(names), ops, verdicts, profiles, compressions, magics);
    }

    public Filter ops(String... names) {
        return new Filter(areas, List.of(names), verdicts, profiles, compressions, magics);
    }

    public Filter verdicts(String... names) {
        return new Filter(areas, ops, List.of(names), profiles, compressions, magics);
    }

    public Filter profiles(String... names) {
        return new Filter(areas, ops, verdicts, List.of(names), compressions, magics);
    }

    public Filter compressions(String... names) {
        return new Filter(areas, ops, verdicts, profiles, List.of(names), magics);
    }

    public Filter magics(Integer... numbers) {
        return new Filter(areas, ops, verdicts, profiles, compressions, List.of(numbers));
    }

    boolean matches(Case each) {
        return allows(areas, List.of(each.area()))
                && allows(ops, List.of(each.op()))
                && allows(verdicts, List.of(each.expect().verdict()))
                && allows(profiles, List.of(each.facts().profile()))
                && allows(compressions, each.facts().compressions())
                && allows(magics, each.facts().magics());
    }

    private static <T> boolean allows(List<T> list, List<T> values) {
        return list.isEmpty() || list.containsAll(values);
    }
}
